// The lines of one terminal as text of the page: its end in sight, its columns fitted to the width, links and a search.

import { TerminalFind } from "./terminal_find.js";
import { cells, lineNodes, plainLine, textOf } from "./terminal_lines.js";
import { visible } from "./words.js";

const WIDTH = "sm.terminal";
const FONT = { least: matchMedia("(max-width: 760px)").matches ? 12 : 9, most: 14, step: 0.5 }; // a phone is scrolled sideways
const END_PX = 4; // so near to the end is at the end
const TOP_PX = 40;
const PAST = [2_000, 10_000]; // lines that are asked for, one after the other

/** What to do with lines that are wider than the page: `fit` makes their letters smaller, `scroll` does not. */
export const widthChoice = () => (localStorage.getItem(WIDTH) === "scroll" ? "scroll" : "fit");

export function chooseWidth(name) {
  localStorage.setItem(WIDTH, name);
  for (const change of changed) change();
}
const changed = new Set();

const pen = document.createElement("canvas").getContext("2d");
const letters = new Map(); // the width of a letter by the font

function letterWidth(font) {
  if (!letters.has(font)) {
    pen.font = font;
    letters.set(font, pen.measureText("M".repeat(100)).width / 100);
  }
  return letters.get(font);
}

function part(name) {
  const element = document.createElement("div");
  element.className = name;
  return element;
}

function button(name, act) {
  const element = document.createElement("button");
  element.type = "button";
  element.className = name;
  element.hidden = true;
  element.addEventListener("click", act);
  return element;
}

/** A terminal. It follows its end, and stands still while a person has scrolled up, selects text or searches. */
export class TerminalView {
  element = part("terminal");
  #screen = part("screen");
  #past = part("screen-past"); // the lines that have left the screen, as they were when a person asked for them
  #now = part("screen-now");
  #note = part("screen-note");
  #more = button("plain", () => this.#readPast());
  #toEnd = button("act to-end", () => this.toEnd());
  #rows = []; // the runs of each row of the newest screen
  #drawn = [];
  #height = 0; // of the screen in rows
  #columns = 0; // the widest row until now: the daemon does not tell the width
  #follows = true;
  #top = 0;
  #asked = 0; // how many answers of PAST are there
  #isReading = false;
  #wasAtEnd = true; // before the search
  #wasSelected = false;
  #shown = null; // the lines of a terminal that is closed
  #readLines;
  #life = new AbortController();
  #sizes = new ResizeObserver(() => this.#fit());
  #changed = () => this.#fit();

  /** `readLines`: read so many of the last lines of the session. */
  constructor(readLines) {
    this.#readLines = readLines;
    this.find = new TerminalFind({
      lines: () => [...this.#past.children, ...this.#now.children],
      hold: () => this.#holdForSearch(),
      reveal: (range, line) => this.#reveal(range, line),
      leave: () => this.#leaveSearch(),
    });
    this.#screen.tabIndex = 0;
    this.#screen.setAttribute("role", "region");
    this.#screen.append(this.#more, this.#past, this.#now, this.#note);
    this.element.append(this.find.element, this.#screen, this.#toEnd);
    this.#more.textContent = "Show earlier lines";
    this.#screen.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#screen.addEventListener("wheel", ({ deltaY }) => deltaY < 0 && this.#screen.scrollTop === 0 && this.#readPast(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.#sizes.observe(this.#screen);
    changed.add(this.#changed);
    document.addEventListener("selectionchange", () => this.#selectionChanged(), { signal: this.#life.signal });
  }

  /** End what it listens to. */
  forget() {
    this.#life.abort();
    this.#sizes.disconnect();
    changed.delete(this.#changed);
  }

  set label(label) {
    this.#screen.setAttribute("aria-label", label);
  }

  // What it shows

  /** Take changed rows of the live screen. */
  take(rows, height) {
    this.#height = height;
    this.#say("");
    this.#rows.length = Math.min(this.#rows.length, height);
    for (const [place, runs] of rows) this.#rows[Number(place)] = runs;
    if (this.#holds()) this.#count();
    else this.#draw();
  }

  /** Show the last lines of a terminal that is closed. */
  show(lines) {
    if (this.#shown?.length === lines.length && lines.every((line, place) => line === this.#shown[place])) return;
    this.#shown = lines;
    this.#rows = [];
    this.#draw();
    this.#setPast(lines);
    this.#asked = lines.length < PAST[0] ? PAST.length : 1;
    this.#columns = Math.max(0, ...lines.map(cells));
    this.#showButtons();
    this.#fit();
  }

  /** Say why the lines may be out of date. */
  tell(words) {
    this.#say(words, true);
    this.#stay();
  }

  #say(words, isProblem = false) {
    this.#note.textContent = words;
    this.#note.classList.toggle("problem", isProblem);
  }

  /** Take the place that it had, when it is in the page again. */
  returned() {
    this.#fit();
    if (!this.#follows) this.#screen.scrollTop = this.#top;
  }

  toEnd() {
    if (this.find.isOpen) {
      this.#wasAtEnd = true;
      this.find.close();
      return;
    }
    if (this.#screen.contains(document.activeElement) || document.activeElement === this.#toEnd) this.#screen.focus();
    if (this.#selects()) getSelection().removeAllRanges();
    this.#follows = true;
    this.#draw();
  }

  #selects() {
    const selection = getSelection();
    return !selection.isCollapsed && this.#screen.contains(selection.anchorNode);
  }

  #selectionChanged() {
    const isOver = this.#wasSelected && !this.#selects();
    this.#wasSelected = this.#selects();
    if (isOver && !this.#holds()) this.#draw();
  }

  #holds() {
    return !this.#follows || this.find.isOpen || this.#selects();
  }

  #draw() {
    if (this.#asked && this.#rows.length) this.#setPast([]); // other lines have left the screen since
    if (this.#rows.length) this.#shown = null;
    let end = this.#rows.length;
    while (end > 0 && !textOf(this.#rows[end - 1] ?? []).trim()) end -= 1;
    while (this.#now.children.length > end) this.#now.lastChild.remove();
    this.#drawn.length = Math.min(this.#drawn.length, end);
    const before = this.#columns;
    const other = [...this.#rows.slice(0, end).keys()].filter((place) => this.#drawn[place] !== (this.#rows[place] ??= []));
    for (const place of other) this.#columns = Math.max(this.#columns, cells(textOf(this.#rows[place])));
    for (const place of other) {
      const runs = (this.#drawn[place] = this.#rows[place]);
      const line = this.#now.children[place] ?? this.#now.appendChild(document.createElement("div"));
      line.replaceChildren(...lineNodes(runs, this.#columns));
    }
    if (this.#rows.length && !this.#note.classList.contains("problem")) this.#say(end ? "" : "The terminal is empty.");
    this.#showButtons();
    if (before !== this.#columns) this.#fit();
    this.#stay();
  }

  #setPast(lines) {
    this.#past.replaceChildren(...lines.map((line) => plainLine(visible(line))));
    this.#asked = 0;
  }

  // Its place

  #stay() {
    if (this.#follows) this.#screen.scrollTop = this.#screen.scrollHeight;
  }

  #isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.#screen;
    return scrollTop + clientHeight >= scrollHeight - END_PX;
  }

  #scrolled() {
    if (!this.#screen.isConnected || this.#screen.clientHeight === 0) return;
    const { scrollTop } = this.#screen;
    const isUp = scrollTop < this.#top;
    this.#top = scrollTop;
    if (this.find.isOpen) return;
    const follows = this.#isAtEnd();
    if (follows !== this.#follows) {
      this.#follows = follows;
      if (!this.#holds()) this.#draw();
    }
    if (!follows && isUp && scrollTop < TOP_PX) this.#readPast();
    this.#showButtons();
  }

  /** The number of rows of the newest screen that are not in sight in this form. */
  #count() {
    const known = new Map();
    for (const runs of this.#drawn) known.set(textOf(runs), (known.get(textOf(runs)) ?? 0) + 1);
    let rows = 0;
    let other = 0;
    for (const text of this.#rows.map((runs) => textOf(runs ?? []))) {
      if (!text.trim()) continue;
      rows += 1;
      if (known.get(text)) known.set(text, known.get(text) - 1);
      else other += 1;
    }
    this.#showButtons(other === 0 ? "" : other === rows && rows > 1 ? `${other}+ new lines ` : `${other} new line${other === 1 ? "" : "s"} `);
  }

  #showButtons(news = null) {
    this.#toEnd.hidden = this.#follows && !this.find.isOpen && !this.#selects();
    if (news !== null || this.#toEnd.hidden) this.#toEnd.textContent = `${news || "To the end "}↓`;
    else if (!this.#toEnd.textContent) this.#toEnd.textContent = "To the end ↓";
    this.element.dataset.follows = String(this.#follows);
    this.#more.hidden = this.#asked >= PAST.length || (this.#asked === 0 && this.#drawn.length < this.#height);
  }

  /** Read lines that have left the screen. What is shown then stands still. */
  async #readPast() {
    if (this.#isReading || this.#asked >= PAST.length) return;
    this.#isReading = true;
    this.#follows = false;
    const wanted = PAST[this.#asked];
    try {
      const lines = await this.#readLines(wanted);
      const past = this.#rows.length ? pastOf(lines, this.#drawn.map(textOf)) : lines;
      const below = this.#screen.scrollHeight - this.#screen.scrollTop;
      const asked = this.#asked + 1;
      this.#setPast(past);
      this.#asked = lines.length < wanted ? PAST.length : asked;
      if (past.length === 0 && !this.find.isOpen) this.#follows = this.#isAtEnd();
      this.#showButtons();
      this.#screen.scrollTop = this.#top = this.#screen.scrollHeight - below;
    } catch {
      this.#more.textContent = "Earlier lines could not be read. Try again";
    } finally {
      this.#isReading = false;
    }
  }

  // Its width

  #fit() {
    if (!this.#screen.isConnected || this.#screen.clientWidth === 0) return;
    const style = getComputedStyle(this.#screen);
    const width = this.#screen.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    let size = FONT.most;
    if (widthChoice() === "fit") while (size > FONT.least && this.#columns * letterWidth(`${size}px ${style.fontFamily}`) > width) size -= FONT.step;
    this.#screen.style.fontSize = `${size}px`;
    this.element.dataset.font = size;
    this.#stay();
  }

  // Its search

  async #holdForSearch() {
    this.#wasAtEnd = this.#follows;
    this.#follows = false;
    if (!this.#asked) await this.#readPast();
    this.#showButtons();
  }

  #leaveSearch() {
    this.#screen.focus();
    if (this.#wasAtEnd) this.toEnd();
  }

  #reveal(range, line) {
    const box = range.getBoundingClientRect();
    const { left, right, top, height } = this.#screen.getBoundingClientRect();
    this.#screen.scrollTop += line.getBoundingClientRect().top - top - height / 2;
    if (box.left < left || box.right > right) this.#screen.scrollLeft += box.left - left - 40;
  }

  #key(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f") this.find.open();
    else if (event.key === "Escape" && this.find.isOpen) this.find.close();
    else if (/^(PageUp|ArrowUp|Home)$/.test(event.key) && this.#screen.scrollTop === 0 && event.target === this.#screen) return void this.#readPast();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** The lines before the screen. `lines`: the last ones with those of the screen, where one may be several `rows`. */
export function pastOf(lines, rows) {
  for (const cut of [0, 1, 2, 3]) { // the first rows may belong to a line that begins before the screen
    let best = { start: 0, matched: 0 };
    for (let start = lines.length - 1; start >= 0; start--) {
      const matched = matchedRows(lines, start, rows.slice(cut));
      if (matched > best.matched) best = { start, matched };
    }
    if (best.matched > 0) return lines.slice(0, best.start);
  }
  return lines.slice(0, Math.max(0, lines.length - rows.length));
}

/** How many rows follow each other from a line on. */
function matchedRows(lines, start, rows) {
  let place = start;
  let rest = lines[start];
  for (let row = 0; row < rows.length; row++) {
    const text = rows[row].trimEnd();
    if (place >= lines.length || !rest.startsWith(text) || (!text && rest.trim())) return row;
    rest = rest.slice(text.length);
    if (rest.trim() && text) continue; // the line goes on in the next row
    place += 1;
    rest = lines[place] ?? "";
  }
  return rows.length;
}
