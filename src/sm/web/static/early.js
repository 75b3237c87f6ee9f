// Opens the WebSocket while the modules load. A plain script, because modules run later. connection.js takes it over.
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
