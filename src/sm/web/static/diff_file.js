// One file of the changes: its header, and its lines in blocks.

import { html, nothing, render } from "./vendor/lit/lit.js";
import { Block, ROWS } from "./diff_blocks.js";
import { languageOf, rowsOf, sideBySide } from "./diff_lines.js";
import { visible } from "./words.js";

const FOLDED_LINES = 1_500; // a file with more is folded until it is asked for
const PICTURE = /\.(png|jpe?g|gif|webp)$/i;
const STATUS = { A: "new file", D: "deleted", R: "renamed", C: "copied", T: "other type", M: "" };
const NUL_MODE = "000000";
const KINDS = { 120000: "link", 160000: "submodule" };

/** `1.2 kB`. */
export function bytes(count) {
  if (count < 1000) return `${count} bytes`;
  return count < 1e6 ? `${(count / 1000).toFixed(1)} kB` : `${(count / 1e6).toFixed(1)} MB`;
}

export class FileView {
  element = document.createElement("section");
  rows = null;
  blocks = [];
  isWhole = false;
  #head = document.createElement("header");
  #body = document.createElement("div");
  #problem = "";
  #busy = false;
  #pictures = null;
  #waits = null; // the element that stands for pictures until it is in sight

  /** `page`: of changes.js. `number`: its place on the page. */
  constructor(page, file, number) {
    this.page = page;
    this.file = file;
    this.number = number;
    this.language = languageOf(file.path);
    this.isFolded = (file.added ?? 0) + (file.deleted ?? 0) > FOLDED_LINES || file.patch === null;
    this.element.className = "diff-file";
    this.element.id = `${page.prefix}file-${number}`;
    this.element.dataset.file = number;
    this.element.setAttribute("aria-label", file.path);
    this.#head.className = "diff-head";
    this.#body.className = "diff-body";
    this.element.append(this.#head, this.#body);
    this.fill();
  }

  get isPicture() {
    return this.file.added === null && PICTURE.test(this.file.path);
  }

  /** Draw the header, and blocks for the lines in the present mode. */
  fill() {
    this.#drop();
    this.head();
    this.#body.hidden = this.isFolded;
    if (this.isFolded) return;
    if (this.file.added === null) {
      this.#binary();
      return;
    }
    if (this.file.patch === null) {
      this.#body.replaceChildren(words(this.#problem || "Loading.", this.#problem));
      return;
    }
    this.rows ??= rowsOf(this.file.patch);
    const lines = this.page.isSplit ? sideBySide(this.rows) : this.rows;
    for (let at = 0; at < lines.length; at += ROWS) this.blocks.push(new Block(this, lines.slice(at, at + ROWS), this.page.isSplit));
    this.#body.replaceChildren(...this.blocks.map(({ element }) => element));
    if (lines.length === 0) this.#body.replaceChildren(words(this.#nothing()));
    for (const block of this.blocks) this.page.drawer.add(block.element, block);
    this.placeDrafts();
  }

  #drop() {
    for (const { element } of this.blocks) this.page.drawer.remove(element);
    if (this.#waits !== null) this.page.drawer.remove(this.#waits);
    this.blocks = [];
    this.#waits = null;
  }

  #nothing() {
    const [before, after] = this.file.modes;
    if (before !== after && before !== NUL_MODE && after !== NUL_MODE) return `Only its mode has changed: ${before} → ${after}.`;
    return this.file.old_path === null ? "The file is empty." : "Nothing but its name has changed.";
  }

  head() {
    const { file, number } = this;
    const kind = KINDS[file.modes[1]] ?? KINDS[file.modes[0]];
    const mode = file.modes.includes(NUL_MODE) || file.modes[0] === file.modes[1] ? "" : `mode ${file.modes.join(" → ")}`;
    const tags = [STATUS[file.status], kind, mode, file.added === null ? "binary" : ""].filter(Boolean);
    const lines = (file.added ?? 0) + (file.deleted ?? 0);
    render(html`<button class="plain fold" aria-expanded=${!this.isFolded} aria-controls="${this.page.prefix}file-${number}" @click=${() => this.fold()}>
        <span aria-hidden="true">${this.isFolded ? "▸" : "▾"}</span><span class="unseen">${this.isFolded ? "Show" : "Fold"} the file</span></button>
      <h3>${file.old_path === null ? nothing : html`<span class="old">${file.old_path}</span> → `}${file.path}</h3>
      ${tags.map((tag) => html`<span class="tag">${tag}</span>`)}
      ${counts(file)}
      <span class="diff-acts">
        ${this.isFolded ? html`<button class="act small" @click=${() => this.fold(false)}>Show${lines ? ` ${lines.toLocaleString("en-US")} lines` : ""}</button>` : nothing}
        ${file.added === null || this.isFolded || ["A", "D"].includes(file.status) ? nothing : html`<button class="act small" aria-pressed=${this.isWhole} ?disabled=${this.#busy}
            @click=${() => this.whole()}>Whole file</button>`}
        <button class="act small" @click=${() => this.page.notes.begin(this, null)}>Comment</button></span>
      <div class="file-notes"></div>`, this.#head);
  }

  fold(isFolded = !this.isFolded) {
    this.isFolded = isFolded;
    this.fill();
    if (!isFolded && this.file.patch === null && this.file.added !== null) this.#load(false);
    this.page.notes.place(this);
  }

  /** Show all lines of the file, or only those near changes. */
  whole() {
    if (this.file.added === null || this.#busy) return;
    if (this.isWhole && this.changes) {
      this.isWhole = false;
      this.#take(this.changes);
    } else this.#load(true);
  }

  async #load(isWhole) {
    this.#busy = true;
    this.#problem = "";
    this.head();
    try {
      const { patch, name } = await this.page.ask("file", { file: this.file.number, whole: isWhole ? 1 : null });
      if (name !== null) this.file.name = name;
      this.changes = isWhole ? this.file.patch : patch;
      this.isWhole = isWhole;
      this.isFolded = false;
      this.#busy = false;
      this.#take(patch);
    } catch (error) {
      this.#busy = false;
      if (isWhole) this.page.tell(error.message);
      this.#problem = error.message;
      this.fill();
    }
  }

  #take(patch) {
    this.file.patch = patch;
    this.rows = null;
    this.fill();
    this.page.notes.place(this);
  }

  // Binary files

  #binary() {
    const [before, after] = this.file.sizes;
    const sizes = [before, after].filter((size) => size !== null).map(bytes).join(" → ");
    this.#body.replaceChildren(words(`A binary file: ${sizes || "its size is not known"}.`));
    if (!this.isPicture) return;
    this.#waits = document.createElement("div");
    this.#waits.className = "pictures";
    this.#body.append(this.#waits);
    this.page.drawer.add(this.#waits, { draw: () => this.#show(this.#waits), forget() {}, colour() {} });
  }

  async #show(element) {
    if (element === null || element.childElementCount) return;
    try {
      this.#pictures ??= this.page.ask("pictures", { file: this.file.number });
      const { pictures } = await this.#pictures;
      const titles = ["Before", "After"];
      render(pictures.map((picture, side) => picture === null ? nothing : html`<figure><img alt=${`${titles[side]}: ${this.file.path}`}
          src=${`data:${picture.type};base64,${picture.content}`}><figcaption>${titles[side]}</figcaption></figure>`), element);
    } catch (error) {
      this.#pictures = null;
      render(html`<p class="problem">${error.message}</p>`, element);
    }
  }

  // Comments

  /** The row that a comment is about: the nearest one with its text, as `sm review` finds it. */
  rowOf({ side, last, quote }) {
    let best = null;
    for (const row of this.rows ?? []) {
      const number = side === "old" ? row.old : row.now;
      if (number === null || (quote ? quoteOf(row) !== quote : number !== last)) continue;
      if (best === null || Math.abs(number - last) < Math.abs((side === "old" ? best.old : best.now) - last)) best = row;
    }
    return best;
  }

  placeDrafts() {
    this.page.notes?.place(this);
  }

  drawNotes(block) {
    this.page.notes.drawRows(this, block);
  }

  get noteHost() {
    return this.#head.querySelector(".file-notes");
  }
}

/** The text of a row as it is kept with a comment: as core/quotation.py and reviews/shown_changes.py make it. */
export function quoteOf(row) {
  const text = (row.kind + row.text).split("\t").map(visible).join("\t").normalize("NFC");
  const points = [...text];
  return points.length <= 400 ? text : `${points.slice(0, 399).join("")}…`;
}

export const counts = ({ added, deleted }) => added === null ? nothing
  : html`<span class="counts"><span class="plus">+${added.toLocaleString("en-US")}</span> <span class="minus">−${deleted.toLocaleString("en-US")}</span></span>`;

function words(text, isBad = false) {
  const element = document.createElement("p");
  element.className = isBad ? "problem" : "hint";
  element.textContent = text;
  return element;
}
