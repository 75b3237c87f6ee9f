// Draws rows of changes in blocks, each when it comes near the visible part of the page, and colours it afterwards.
// Everything that an agent wrote becomes text nodes.

import { changedWords, coloured, cutRuns } from "./diff_lines.js";
import { visibleCode } from "./words.js";

export const ROWS = 20; // in a block
export const ROW_PX = 20; // before a block is drawn
const NEAR_PX = 900;
const FRAME_MS = 8; // for drawing, in each frame
const SHOWN_MAX = 2_000; // characters of a line
const idle = globalThis.requestIdleCallback ?? ((act) => setTimeout(() => act({ timeRemaining: () => 6 }), 30));

/** Draws blocks that are in sight, or near it, and forgets those that are not. */
export class Drawer {
  #observer;
  #blocks = new Map(); // element -> block
  #wanted = new Set();
  #plain = new Set(); // drawn, without colours
  #frame = 0;
  #idle = 0;

  /** `root`: the element that scrolls; null: the page. */
  constructor(root) {
    this.#observer = new IntersectionObserver((entries) => this.#see(entries), { root, rootMargin: `${NEAR_PX}px 0px` });
  }

  /** Watch an element. `block`: {draw, forget, colour}. */
  add(element, block) {
    this.#blocks.set(element, block);
    this.#observer.observe(element);
  }

  /** Draw blocks at once, before the browser has found that they are in sight. */
  begin(blocks) {
    for (const block of blocks) {
      block.draw();
      this.#plain.add(block);
    }
    this.#colourSoon();
  }

  remove(element) {
    const block = this.#blocks.get(element);
    this.#observer.unobserve(element);
    this.#blocks.delete(element);
    this.#wanted.delete(block);
    this.#plain.delete(block);
  }

  close() {
    this.#observer.disconnect();
    this.#blocks.clear();
    this.#wanted.clear();
    this.#plain.clear();
  }

  #see(entries) {
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      const block = this.#blocks.get(target);
      if (block === undefined) continue;
      if (isIntersecting) this.#wanted.add(block);
      else {
        this.#wanted.delete(block);
        this.#plain.delete(block);
        block.forget(boundingClientRect.height);
      }
    }
    if (this.#wanted.size && !this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    const end = performance.now() + FRAME_MS;
    this.#frame = 0;
    for (const block of this.#wanted) {
      this.#wanted.delete(block);
      block.draw();
      this.#plain.add(block);
      if (performance.now() > end) break;
    }
    if (this.#wanted.size) this.#frame = requestAnimationFrame(() => this.#draw());
    this.#colourSoon();
  }

  #colourSoon() {
    if (!this.#idle && this.#plain.size) this.#idle = idle((deadline) => this.#colour(deadline), { timeout: 500 });
  }

  #colour(deadline) {
    this.#idle = 0;
    for (const block of this.#plain) {
      this.#plain.delete(block);
      block.colour();
      if (deadline.timeRemaining() < 4) break;
    }
    this.#colourSoon();
  }
}

/** Some rows of a file. `rows`: of `rowsOf`, or of `sideBySide` if `isSplit`. */
export class Block {
  element = document.createElement("div");
  /** The element of each drawn row, by the number of the row. */
  drawn = new Map();
  #texts = []; // [element, row] of each text that is drawn

  constructor(file, rows, isSplit) {
    this.file = file;
    this.rows = rows;
    this.isSplit = isSplit;
    this.element.className = "block";
    this.element.style.height = `${rows.length * ROW_PX}px`;
  }

  draw() {
    if (this.drawn.size) return;
    const all = this.rows.map((row) => (this.isSplit ? this.#pair(row) : this.#single(row)));
    this.element.replaceChildren(...all);
    this.element.style.height = "";
    this.file.drawNotes(this);
  }

  /** Keep nothing but the height, unless a person writes there. */
  forget(height) {
    if (this.drawn.size === 0 || this.element.querySelector("form")) return;
    this.drawn.clear();
    this.#texts = [];
    this.element.replaceChildren();
    this.element.style.height = `${height}px`;
  }

  colour() {
    if (this.drawn.size === 0) return;
    const { language } = this.file;
    const lines = [...new Set(this.#texts.map(([, row]) => row))];
    const colours = new Map();
    for (const skipped of ["-", "+"]) {
      const side = lines.filter(({ kind }) => kind !== skipped);
      if (skipped === "+" && !side.some(({ kind }) => kind === "-")) continue;
      const found = side.some(({ text }) => text.length > SHOWN_MAX) ? null : coloured(language, side.map(codeOf));
      if (found?.length === side.length) side.forEach((row, place) => colours.has(row) || colours.set(row, found[place]));
    }
    for (const [element, row] of this.#texts) {
      const words = changedWords(row);
      if (colours.has(row) || words.length) fill(element, row, colours.get(row), words);
    }
  }

  #single(row) {
    if (row.kind === "@" || row.kind === "\\") return this.#whole(row);
    const element = part("div", `dl ${CLASSES[row.kind]}`, numbers(row, "old"), numbers(row, "now"), sign(row), this.#text(row));
    this.drawn.set(row.i, element);
    return element;
  }

  #pair({ whole, left, right }) {
    if (whole) return this.#whole(whole);
    const side = (row, name) => row === null ? [part("span", "no none"), part("span", "sg none"), part("span", "tx none")]
      : [numbers(row, name), sign(row), this.#text(row)];
    const element = part("div", "dl two", ...side(left, "old"), ...side(right, "now"));
    for (const row of [left, right]) if (row !== null) this.drawn.set(row.i, element);
    return element;
  }

  #whole(row) {
    const element = part("div", row.kind === "@" ? "dl hunk" : "dl remark", part("span", "tx", visibleCode(row.text.slice(0, SHOWN_MAX))));
    this.drawn.set(row.i, element);
    return element;
  }

  #text(row) {
    const element = part("span", row.kind === " " ? "tx" : `tx ${CLASSES[row.kind]}`);
    fill(element, row);
    this.#texts.push([element, row]);
    return element;
  }
}

const CLASSES = { "+": "add", "-": "del", " ": "same" };
const sign = (row) => part("span", row.kind === " " ? "sg" : `sg ${CLASSES[row.kind]}`, row.kind);

function part(name, className, ...content) {
  const element = document.createElement(name);
  element.className = className;
  element.append(...content);
  return element;
}

/** The number of a line; a press on it begins a comment. The style sheet shows it, so that a selection is only code. */
function numbers(row, name) {
  const element = part("span", row.kind === " " ? "no" : `no ${CLASSES[row.kind]}`);
  element.dataset.row = row.i;
  if (row[name] !== null) element.dataset.number = row[name];
  return element;
}

/** A line without the carriage return at its end, which is shown as a mark. */
const codeOf = ({ text }) => (text.endsWith("\r") ? text.slice(0, -1) : text);

function fill(element, row, runs = undefined, words = []) {
  const text = codeOf(row);
  const shown = text.slice(0, SHOWN_MAX);
  const pieces = cutRuns(runs ?? [[shown, ""]], words).map(([piece, kind, isChanged]) => {
    const code = visibleCode(piece);
    if (!kind && !isChanged) return code;
    return part("span", `${kind}${isChanged ? " word" : ""}`.trim(), code);
  });
  if (text.length > SHOWN_MAX) pieces.push(part("span", "mark", ` … ${(text.length - SHOWN_MAX).toLocaleString("en-US")} more characters`));
  if (text !== row.text) pieces.push(part("span", "mark", "␍"));
  element.replaceChildren(...pieces);
}
