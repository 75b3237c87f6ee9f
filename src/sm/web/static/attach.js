// The terminal page: an agent's terminal in this browser, to type into it. The session is in the fragment of the address.

import { token } from "./api.js";
import { FitAddon, Terminal } from "./vendor/xterm/xterm.js";
import { shown } from "./words.js";

const LEAST = { columns: 20, rows: 5 };
const MOST = { columns: 500, rows: 200 };
const RESIZE_MS = 100;
const PIECE_BYTES = 32 * 1024;
const SHOWN_BYTES = 32 * 1024;
const KEYS_GO = "Your keys go to the agent. F6 leaves the terminal.";
const WORDS = {
  4401: "This login is not valid any more.",
  4403: "This login may not attach: it needs the scope all.",
  4429: "Too many wrong logins. Wait a minute.",
};

const find = (id) => document.getElementById(id);
const session = location.hash.slice(1);
const encoder = new TextEncoder();
let socket = null;
let terminal = null;
let fit = null;
let resizing = 0;
let undrawn = 0;
let sent = "";

function say(words, bad = false) {
  find("words").textContent = words;
  find("words").classList.toggle("problem", bad);
}

/** `phase`: connecting, attached or over. Tests wait for it. */
function enter(phase, words, bad = false) {
  document.documentElement.dataset.phase = phase;
  find("terminal").dataset.over = String(phase === "over");
  find("again").hidden = phase !== "over" || terminal === null;
  find("detach").hidden = phase !== "attached";
  say(words, bad);
  if (phase === "over") (terminal === null ? find("back") : find("again")).focus();
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
  const bright = (name) => `bright${name[0].toUpperCase()}${name.slice(1)}`;
  const palette = [...names, ...names.map(bright)].map((name, number) => [name, colour(`--ansi-${number}`)]);
  const [background, foreground] = [colour("--screen-back"), colour("--screen-text")];
  return { ...Object.fromEntries(palette), black: background, background, foreground, cursor: foreground, cursorAccent: background };
}

function build() {
  terminal = new Terminal({
    fontFamily: 'ui-monospace, "DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace',
    fontSize: 14,
    scrollback: 0, // tmux has it
    theme: theme(),
    minimumContrastRatio: 4.5,
    linkHandler: { activate: () => {} }, // an agent's link leads nowhere
  });
  fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(find("terminal"));
  terminal.onData((text) => type(encoder.encode(text)));
  terminal.onBinary((text) => type(Uint8Array.from(text, (character) => character.charCodeAt(0))));
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== "F6") return true;
    if (event.type === "keydown") (find("detach").hidden ? find("again") : find("detach")).focus();
    return false;
  });
  new ResizeObserver(() => {
    clearTimeout(resizing);
    resizing = setTimeout(resize, RESIZE_MS);
  }).observe(find("terminal"));
}

function size() {
  const proposed = fit.proposeDimensions();
  const bounded = (value, name) => Math.min(MOST[name], Math.max(LEAST[name], value || LEAST[name]));
  return { columns: bounded(proposed?.cols, "columns"), rows: bounded(proposed?.rows, "rows") };
}

function resize() {
  const { columns, rows } = size();
  terminal.resize(columns, rows);
  if (sent === `${columns}x${rows}` || document.documentElement.dataset.phase !== "attached") return;
  sent = `${columns}x${rows}`;
  tell({ t: "resize", columns, rows });
}

const tell = (frame) => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(frame));

/** What is typed without a connection is lost: nothing is sent later. */
function type(bytes) {
  if (document.documentElement.dataset.phase !== "attached") return;
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) socket.send(bytes.subarray(at, at + PIECE_BYTES));
}

/** The server sends more only when what it sent is drawn. */
function draw(data) {
  terminal.write(new Uint8Array(data), () => {
    undrawn += data.byteLength;
    if (undrawn < SHOWN_BYTES) return;
    tell({ t: "shown", bytes: undrawn });
    undrawn = 0;
  });
}

function attach() {
  terminal.reset();
  undrawn = 0;
  const { columns, rows } = size();
  terminal.resize(columns, rows);
  sent = `${columns}x${rows}`;
  enter("connecting", "Connecting.");
  const opened = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/attach/ws`);
  opened.binaryType = "arraybuffer";
  socket = opened;
  opened.onopen = () => {
    tell({ t: "auth", token: token() ?? "" });
    tell({ t: "attach", session, columns, rows });
  };
  opened.onmessage = ({ data }) => (typeof data === "string" ? take(JSON.parse(data)) : draw(data));
  opened.onclose = ({ code, reason }) => {
    if (socket !== opened) return;
    socket = null;
    if (document.documentElement.dataset.phase === "over") return;
    const words = WORDS[code] ?? (code >= 4000 ? reason : "");
    enter("over", words || "The connection to sm web was lost. The agent keeps running.", true);
  };
}

function take(frame) {
  if (frame.t === "attached") {
    const label = shown(frame.label, 200);
    document.title = `${label} - sm terminal`;
    find("label").textContent = label;
    enter("attached", KEYS_GO);
    resize();
    terminal.focus();
  } else if (frame.t === "ended") enter("over", shown(frame.words));
  else if (frame.t === "held" && document.documentElement.dataset.phase === "attached") {
    say(frame.words ? `${shown(frame.words, 200)} Keys have no effect until then. F6 leaves the terminal.` : KEYS_GO, frame.words !== "");
  } else if (frame.t === "refused") enter("over", frame.hint ? `${shown(frame.words, 500)} (hint: ${shown(frame.hint, 500)})` : shown(frame.words, 500), true);
}

function detach() {
  enter("over", "Detached. The agent keeps running.");
  socket?.close();
}

find("back").href = `/#/s/${encodeURIComponent(session)}/peek`;
find("again").addEventListener("click", attach);
find("detach").addEventListener("click", detach);
addEventListener("hashchange", () => location.reload());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => terminal && (terminal.options.theme = theme()));

if (!token()) enter("over", "This browser has no login. On the machine with your agents, type sm web link.", true);
else if (matchMedia("(pointer: coarse)").matches) enter("over", "A terminal needs a keyboard and a mouse. The page of the session shows the screen, and sends messages.", true);
else {
  build();
  attach();
}
