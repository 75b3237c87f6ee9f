// A plain script, because modules run later.

// Say that a module is missing: it was lost with the network, and the rest of the page will never run.
addEventListener(
  "error",
  ({ target }) => {
    if (target instanceof HTMLScriptElement) {
      const words = document.createElement("p");
      const again = document.createElement("a");
      again.href = location.href;
      again.textContent = "Load it again";
      again.onclick = (event) => {
        event.preventDefault();
        location.reload();
      };
      words.append("A part of this page could not be loaded. ", again);
      document.querySelector("#app").replaceChildren(words);
    }
  },
  true,
);

// Open the WebSocket while the modules load. connection.js takes it over.
{
  const token = localStorage.getItem("sm.token");
  const isLink = location.hash.length > 1 && !location.hash.startsWith("#/");
  if (token && !isLink) {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    const early = { token, socket, messages: [], code: 0 };
    socket.onopen = () => socket.send(JSON.stringify({ t: "auth", token, revision: null }));
    socket.onmessage = (message) => early.messages.push(message);
    socket.onclose = ({ code }) => {
      early.code = code;
    };
    globalThis.earlySocket = early;
  }
}
