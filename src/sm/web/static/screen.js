// The peek: the visible screen of a terminal as text of the page, so that it can be scrolled, selected and enlarged.

import { ui } from "./ui.js";

const FLAGS = new Set(["bold", "dim", "italic", "underline", "blink", "reverse", "hidden", "strike"]);
const COLOUR = /^(fg|bg):(?:(#[0-9a-f]{6})|([0-9]{1,3}))$/i;

function paletteColour(number) {
  if (number < 16) return `var(--ansi-${number})`;
  if (number >= 232) return `rgb(${Array(3).fill(8 + 10 * (number - 232)).join(" ")})`;
  const level = (index) => (index === 0 ? 0 : 55 + 40 * index);
  const cube = number - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}

function run([text, style]) {
  const span = document.createElement("span");
  span.textContent = text;
  let front = null;
  let back = null;
  const words = (style ?? "").split(" ");
  for (const word of words) {
    const [, side, exact, number] = COLOUR.exec(word) ?? [];
    if (FLAGS.has(word)) span.classList.add(`t-${word}`);
    else if (side) {
      const colour = exact ?? paletteColour(Math.min(255, Number(number)));
      if (side.toLowerCase() === "fg") front = colour;
      else back = colour;
    }
  }
  if (words.includes("reverse")) [front, back] = [back ?? "var(--screen-back)", front ?? "var(--screen-text)"];
  if (front) span.style.color = front;
  if (back) span.style.backgroundColor = back;
  return span;
}

/** The screen of one session, in an element of its own that Lit does not draw. */
class Screen {
  element = document.createElement("div");
  session = null;
  over = false;
  updates = 0;

  constructor() {
    this.element.className = "screen";
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "region");
  }

  /** Show the screen of a session; null: none. */
  open(session, label = "") {
    this.element.setAttribute("aria-label", `Terminal of ${label}`);
    if (session === this.session) return;
    this.close();
    this.session = session;
    this.over = false;
    this.updates = 0;
    this.element.replaceChildren();
    delete this.element.dataset.updates;
    this.ask();
  }

  /** Ask the server for the stream, also after a reconnect. */
  ask() {
    if (this.session !== null && !document.hidden) ui.connection?.send({ t: "open", channel: "screen", session: this.session });
  }

  pause() {
    if (this.session !== null) ui.connection?.send({ t: "close", channel: "screen", session: this.session });
  }

  close() {
    this.pause();
    this.session = null;
  }

  take(frame) {
    if (frame.session !== this.session) return;
    const rows = Array.isArray(frame.rows) ? frame.rows.map(({ row, runs }) => [row, runs]) : Object.entries(frame.rows ?? {});
    const height = frame.height ?? frame.size?.[1] ?? this.element.children.length;
    while (this.element.children.length > height) this.element.lastChild.remove();
    while (this.element.children.length < height) this.element.append(document.createElement("div"));
    for (const [place, runs] of rows) {
      const line = this.element.children[Number(place)];
      if (line) line.replaceChildren(...(runs.length ? runs.map(run) : [document.createTextNode("\u00a0")]));
    }
    if (frame.trouble) this.element.replaceChildren(document.createTextNode(frame.trouble));
    if (frame.over && !this.over) {
      this.over = true;
      ui.draw();
    }
    this.updates += 1;
    this.element.dataset.updates = this.updates;
  }
}

export const screen = new Screen();
