// Finds words in the lines of a terminal, and marks them without a change of the lines.

import { html, nothing, render } from "./vendor/lit/lit.js";

const FOUND_MAX = 5000;
const marks = globalThis.CSS?.highlights && globalThis.Highlight ? CSS.highlights : null; // others mark the line only

/** The search field of a terminal. `screen`: {lines(), hold(), reveal(range, line), leave()}. */
export class TerminalFind {
  element = document.createElement("search");
  isOpen = false;
  #screen;
  #words = "";
  #found = []; // [{line, range}]
  #at = -1;

  constructor(screen) {
    this.#screen = screen;
    this.element.className = "find";
    this.element.hidden = true;
  }

  async open() {
    this.isOpen = true;
    this.element.hidden = false;
    this.#draw();
    const field = this.element.querySelector("input");
    field.focus();
    field.select();
    await this.#screen.hold();
    if (this.isOpen) this.look();
  }

  close() {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.element.hidden = true;
    this.#forget();
    this.#screen.leave();
  }

  /** Look for the words again, because they or the lines are others. The last place is nearest to the end. */
  look() {
    this.#forget();
    const words = lower(this.#words);
    if (words) {
      for (const line of this.#screen.lines()) {
        const text = lower(line.textContent);
        for (let at = text.indexOf(words); at >= 0 && this.#found.length < FOUND_MAX; at = text.indexOf(words, at + words.length))
          this.#found.push({ line, range: rangeOf(line, at, at + words.length) });
      }
      marks?.set("sm-found", new Highlight(...this.#found.map(({ range }) => range)));
    }
    this.#go(this.#found.length - 1);
  }

  step(steps) {
    const count = this.#found.length;
    if (count) this.#go((this.#at + steps + count) % count);
  }

  #go(place) {
    this.#found[this.#at]?.line.classList.remove("found");
    this.#at = place;
    const here = this.#found[place];
    marks?.delete("sm-found-here");
    if (here) {
      here.line.classList.add("found");
      if (marks) {
        const mark = new Highlight(here.range);
        mark.priority = 1;
        marks.set("sm-found-here", mark);
      }
      this.#screen.reveal(here.range, here.line);
    }
    this.#draw();
  }

  #forget() {
    this.#found[this.#at]?.line.classList.remove("found");
    marks?.delete("sm-found");
    marks?.delete("sm-found-here");
    this.#found = [];
    this.#at = -1;
  }

  #count() {
    if (!this.#words) return "";
    const count = this.#found.length;
    return count ? `${this.#at + 1} of ${count}${count === FOUND_MAX ? "+" : ""}` : "not found";
  }

  #draw() {
    const type = (event) => {
      this.#words = event.target.value;
      this.look();
    };
    const keys = (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") this.close();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    render(
      html`<input type="search" aria-label="Find in the terminal" placeholder="Find" maxlength="200" autocomplete="off" spellcheck="false" @input=${type} @keydown=${keys}>
        <span class="hint" role="status">${this.#count()}</span>
        ${this.#found.length > 1 ? html`<button type="button" class="act small" aria-label="Previous" @click=${() => this.step(-1)}>↑</button>
          <button type="button" class="act small" aria-label="Next" @click=${() => this.step(1)}>↓</button>` : nothing}
        <button type="button" class="act small" aria-label="Close the search" @click=${() => this.close()}>✕</button>`,
      this.element,
    );
  }
}

/** In lower case, unless that moves characters to other places. */
function lower(text) {
  const made = text.toLowerCase();
  return made.length === text.length ? made : text;
}

/** The range of the characters `from` to `until` of an element. */
function rangeOf(element, from, until) {
  const range = document.createRange();
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let before = 0;
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const end = before + node.data.length;
    if (from >= before && from < end) range.setStart(node, from - before);
    if (until <= end) {
      range.setEnd(node, until - before);
      break;
    }
    before = end;
  }
  return range;
}
