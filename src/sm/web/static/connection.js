// The WebSocket of this tab: authenticates, reconnects with the last revision, and tells when the data grows old.

const PAUSE_MS = [250, 500, 1000, 2000, 4000];
const BEAT_MS = 15_000;
const SILENT_MS = 40_000;
const REFUSED = 4401;
const TOO_MANY = 4429;

export class Connection extends EventTarget {
  #socket = null;
  #tries = 0;
  #heardAt = 0;
  #timer = 0;
  #token = "";
  #revision = () => null;

  /** `revision`: returns the last one that is known. */
  open(token, revision) {
    this.#token = token;
    this.#revision = revision;
    const early = globalThis.earlySocket;
    if (early?.token === token) this.#takeOver(early);
    else this.#connect();
    setInterval(() => this.#beat(), BEAT_MS);
    addEventListener("online", () => this.retry());
    addEventListener("offline", () => this.#drop("the network is off"));
    document.addEventListener("visibilitychange", () => document.hidden || this.retry());
  }

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Return whether the frame was given to the network. */
  send(frame) {
    if (!this.isOpen) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  /** Connect now if there is no connection. */
  retry() {
    if (this.#socket !== null || !this.#token) return;
    clearTimeout(this.#timer);
    this.#connect();
  }

  /** A network that is gone closes no socket: without an answer for too long, the data counts as old. */
  #beat() {
    if (this.#socket === null || document.hidden) return;
    if (performance.now() - this.#heardAt > SILENT_MS) this.#drop("no answer from sm web");
    else this.send({ t: "ping" });
  }

  /** Go on with the socket of early.js, which authenticates itself. */
  #takeOver({ socket, messages, code }) {
    this.#use(socket);
    for (const message of messages) socket.onmessage?.(message);
    if (socket.readyState === WebSocket.CLOSED) socket.onclose?.({ code });
  }

  #connect() {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    socket.onopen = () => this.send({ t: "auth", token: this.#token, revision: this.#revision() });
    this.#use(socket);
  }

  #use(socket) {
    this.#socket = socket;
    this.#heardAt = performance.now();
    socket.onmessage = ({ data }) => {
      this.#heardAt = performance.now();
      const frame = JSON.parse(data);
      if (frame.t === "hello") this.#tries = 0;
      this.dispatchEvent(new CustomEvent("frame", { detail: frame }));
    };
    socket.onclose = ({ code }) => this.#socket === socket && this.#drop("no connection to sm web", code);
  }

  #drop(reason, code = 0) {
    const socket = this.#socket;
    this.#socket = null;
    if (socket !== null) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
    clearTimeout(this.#timer);
    if (code === REFUSED) {
      this.#token = "";
      this.dispatchEvent(new Event("refused"));
      return;
    }
    this.dispatchEvent(new CustomEvent("lost", { detail: reason }));
    const pause = code === TOO_MANY ? 60_000 : PAUSE_MS[Math.min(this.#tries++, PAUSE_MS.length - 1)];
    this.#timer = setTimeout(() => this.#connect(), pause);
  }
}
