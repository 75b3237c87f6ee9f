// The tab with the changes of a session. It is loaded when it is opened first.

import { html, nothing, render } from "./vendor/lit/lit.js";
import { changesPath, changesSince, get } from "./api.js";
import { Drawer } from "./diff_blocks.js";
import { counts, FileView } from "./diff_file.js";
import { Notes } from "./diff_notes.js";
import { loadStyles } from "./styles.js";
import { tell, ui } from "./ui.js";

await loadStyles("changes.css"); // before anybody sees this part of the page

const MODE = "sm.diff";
const FRAME_MS = 8; // for new files, in each frame
const FIRST_SEEN = 4; // files and blocks of lines that are drawn at once
const unkept = new Map(); // comments that were being typed when their session was left, by its id

/** The changes of one session at a time. `prefix`: of the ids of its elements, which are unique on the page. */
export class Changes {
  element = document.createElement("div");
  session = null;
  data = null; // the answer of the server
  files = [];
  notes = null;
  drawer = null;
  isSplit = localStorage.getItem(MODE) === "split";
  #frame = document.createElement("div");
  #host = document.createElement("div");
  #since = "start";
  #problem = null;
  #loading = null; // the AbortController of what is being loaded
  #root = undefined; // the element that scrolls
  #current = 0;
  #cursor = null; // {file, row}

  constructor(prefix = "") {
    this.prefix = prefix;
    this.element.className = "changes";
    this.element.tabIndex = -1;
    this.#host.className = "diff-files";
    this.#host.addEventListener("click", (event) => this.#press(event));
    this.element.append(this.#frame);
  }

  /** Show the changes of a session. `begun`: {loading, answer} of `changesSince`, if they have been asked for. */
  open(session, begun = undefined) {
    if (session === this.session) return;
    this.close();
    this.session = session;
    this.#since = "start";
    this.load(begun);
  }

  /** Forget them. The server ends what it does for them. */
  close() {
    this.#keep();
    this.#loading?.abort();
    this.drawer?.close();
    Object.assign(this, { session: null, data: null, files: [], notes: null, drawer: null });
    this.#host.replaceChildren();
    this.#loading = this.#problem = this.#cursor = null;
  }

  #keep() {
    const typed = this.notes?.unkept ?? null;
    if (typed !== null) unkept.set(this.session, typed);
  }

  path(act) {
    return `${changesPath(this.session)}/${act}`;
  }

  /** Ask about one file of the shown changes. */
  ask(act, query) {
    return get(this.path(act), { ...query, shown: this.data.shown }, this.#loading.signal);
  }

  tell(words, isBad = true) {
    tell(words, isBad);
  }

  async load(begun = undefined) {
    this.#loading?.abort();
    const loading = begun?.loading ?? new AbortController();
    this.#loading = loading;
    this.#problem = null;
    this.draw();
    try {
      const data = await (begun?.answer ?? changesSince(this.session, this.#since, loading));
      if (loading.signal.aborted) return;
      this.#take(data);
    } catch (error) {
      if (loading.signal.aborted) return;
      this.#problem = error;
      if (this.#since === "review") this.#since = "start";
    }
    this.draw();
  }

  #take(data) {
    const { files } = data.changes;
    data.changes.files = treeLines(files).flatMap(({ number }) => (number === undefined ? [] : [{ ...files[number], number }])); // in the order of the tree
    this.#keep();
    this.data = data;
    this.drawer?.close();
    this.drawer = null;
    this.#cursor = null;
    this.#current = 0;
    this.files = [];
    this.#host.replaceChildren();
    this.notes = new Notes(this);
    this.draw();
    const panel = this.element.closest(".panel, .needs");
    this.#root = panel !== null && getComputedStyle(panel).overflowY === "auto" ? panel : null;
    this.drawer = new Drawer(this.#root);
    this.#begin();
    const typed = unkept.get(this.session);
    unkept.delete(this.session);
    if (typed !== undefined) this.notes.edit(typed);
    ui.draw();
  }

  /** Draw about what is in sight, before the other files are there. */
  #begin() {
    let seen = 0;
    while (seen < FIRST_SEEN && this.#append()) {
      const { blocks } = this.files.at(-1);
      this.drawer.begin(blocks.slice(0, FIRST_SEEN - seen));
      seen += 1 + blocks.length;
    }
    this.#addSoon(this.drawer);
  }

  /** Add the other files, in each frame as many as it has time for. */
  #addSoon(drawer) {
    requestAnimationFrame(() => {
      if (this.drawer !== drawer) return;
      const end = performance.now() + FRAME_MS;
      while (performance.now() < end) if (!this.#append()) return;
      this.#addSoon(drawer);
    });
  }

  /** Add the next file. Return whether there was one. */
  #append() {
    const { files } = this.data.changes;
    const number = this.files.length;
    if (number < files.length) {
      const view = new FileView(this, files[number], number);
      this.files.push(view);
      this.#host.append(view.element);
    }
    if (number + 1 >= files.length) this.#host.dataset.complete = this.data.shown;
    return number < files.length;
  }

  #ready(number) {
    while (number >= this.files.length && this.#append());
    return this.files[number];
  }

  fileNamed(name) {
    const number = this.data.changes.files.findIndex((file) => file.name === name);
    return name === null || number < 0 ? null : this.#ready(number);
  }

  // What is drawn around the files

  draw() {
    render(this.#view(), this.#frame);
  }

  #view() {
    const problem = this.#problem === null ? nothing
      : html`<p class="problem" role="alert">${this.#problem.message}</p>${this.#problem.hint ? html`<p class="hint">${this.#problem.hint}</p>` : nothing}
        <button class="act small" @click=${() => this.load()}>Try again</button>`;
    if (this.data === null) return this.#problem === null ? html`<p class="empty">Loading.</p>` : html`<div class="empty">${problem}</div>`;
    const { changes } = this.data;
    return html`${this.#bar(changes)} ${problem}
      ${changes.warning ? html`<p class="hint">${changes.warning}</p>` : nothing}
      ${this.notes.list()}
      ${changes.count === 0 ? html`<p class="empty">Nothing has changed ${this.#since === "review" ? "since your last review" : "since it began"}.</p>`
        : html`<div class="diff">${this.#tree(changes.files)} ${this.#host}</div>`}
      ${changes.count > changes.files.length ? html`<p class="hint">${(changes.count - changes.files.length).toLocaleString("en-US")} more files are not shown. In a shell: sm diff</p>` : nothing}`;
  }

  #bar(changes) {
    const last = this.notes.rounds.find(({ tree }) => tree);
    return html`<div class="diff-bar">
      <p><b>${changes.count === 1 ? "1 file" : `${changes.count.toLocaleString("en-US")} files`}</b> ${counts(changes)}</p>
      <label><span class="unseen">Changes since</span><select @change=${(event) => {
        this.#since = event.target.value;
        this.load();
      }}><option value="start" ?selected=${this.#since === "start"}>Since it began</option>
        <option value="review" ?selected=${this.#since === "review"} ?disabled=${last === undefined}>Since my last review${last ? ` (round ${last.number})` : ""}</option></select></label>
      <span class="diff-acts"><button class="act small" aria-pressed=${this.isSplit} @click=${() => this.turn()}>Side by side<kbd aria-hidden="true">V</kbd></button>
      <button class="act small" @click=${() => this.load()}>Load again</button>
      <button class="act small ${this.notes.drafts.length ? "go" : ""}" data-act="drafts" aria-expanded=${this.notes.isOpen} @click=${() => this.#list()}>Drafts (${this.notes.drafts.length})<kbd aria-hidden="true">L</kbd></button></span>
    </div>`;
  }

  #tree(files) {
    return html`<nav class="diff-tree" aria-label="Changed files"><details ?open=${matchMedia("(min-width: 761px)").matches}><summary>Files</summary><ul>
      ${treeLines(files).map(({ depth, directory, number, name }) => directory !== undefined
        ? html`<li class="dir" .style=${indent(depth)}>${directory}/</li>`
        : html`<li .style=${indent(depth)}><button class="plain" data-file=${number} aria-current=${number === this.#current ? "true" : nothing}
            title=${files[number].path} @click=${() => this.go(number)}><span>${name}</span>${counts(files[number])}</button></li>`)}</ul></details></nav>`;
  }

  #list() {
    this.notes.isOpen = !this.notes.isOpen;
    this.draw();
  }

  /** Side by side, or unified. */
  turn() {
    this.isSplit = !this.isSplit;
    localStorage.setItem(MODE, this.isSplit ? "split" : "unified");
    const number = this.#at();
    for (const file of this.files) file.fill();
    this.draw();
    this.go(number);
  }

  // Where the person is

  /** The file at the top of what is visible. */
  #at() {
    const top = (this.#root?.getBoundingClientRect().top ?? 0) + 60;
    const found = this.files.findIndex(({ element }) => element.getBoundingClientRect().bottom > top);
    return found < 0 ? Math.max(0, this.files.length - 1) : found;
  }

  /** The file that keys act on: the one that was gone to, if it is in sight, because the last files cannot be at the top. */
  #here() {
    const { top = Infinity, bottom = 0 } = this.files[this.#current]?.element.getBoundingClientRect() ?? {};
    const seen = this.#root?.getBoundingClientRect() ?? { top: 0, bottom: innerHeight };
    return top < seen.bottom && bottom > seen.top + 60 ? this.#current : this.#at();
  }

  #step(steps) {
    this.go(Math.max(0, Math.min(this.data.changes.files.length - 1, this.#here() + steps)));
  }

  go(number) {
    const file = this.#ready(number);
    if (file === undefined) return;
    this.#current = number;
    file.element.scrollIntoView({ block: "start" });
    this.draw();
  }

  /** Bring a row into sight, drawn. */
  reveal(file, row) {
    const block = file.blocks.find(({ rows }) => rows.some((entry) => [entry, entry.left, entry.right, entry.whole].includes(row)));
    block?.draw();
    block?.drawn.get(row.i)?.scrollIntoView({ block: "nearest" });
  }

  showDraft(draft) {
    const file = this.fileNamed(draft.path);
    if (file === null) return;
    if (file.isFolded) file.fold(false);
    const row = draft.last === null ? null : file.rowOf(draft);
    if (row === null) this.go(file.number);
    else this.reveal(file, row);
  }

  #press(event) {
    const number = event.target.closest?.(".no[data-number]");
    const section = number?.closest(".diff-file");
    if (!section) return;
    const file = this.files[Number(section.dataset.file)];
    this.notes.begin(file, file.rows[Number(number.dataset.row)], event.shiftKey);
  }

  /** Mark the next or the previous line of a file. */
  #move(step) {
    let { file, row } = this.#cursor ?? { file: this.files[this.#at()], row: null };
    const isLine = ({ kind }) => kind === "+" || kind === "-" || kind === " ";
    const after = (rows, from) => (step > 0 ? rows.slice(from + 1) : rows.slice(0, Math.max(0, from)).reverse()).find(isLine);
    let next = file === undefined ? undefined : after(file.rows ?? [], row === null ? -1 : row.i);
    while (next === undefined && file !== undefined) {
      file = this.#ready(file.number + step);
      if (file && !file.isFolded) next = after(file.rows ?? [], step > 0 ? -1 : (file.rows ?? []).length);
    }
    if (next === undefined) return;
    this.#mark(false);
    this.#cursor = { file, row: next };
    this.reveal(file, next);
    this.#mark(true);
  }

  #mark(isAt) {
    if (this.#cursor === null) return;
    const { file, row } = this.#cursor;
    for (const { drawn } of file.blocks) drawn.get(row.i)?.classList.toggle("at", isAt);
  }

  /** Return whether a key has an effect here. */
  key(key) {
    if (this.data === null) return false;
    const act = {
      j: () => this.#step(1),
      k: () => this.#step(-1),
      ".": () => this.#move(1),
      ",": () => this.#move(-1),
      Enter: () => this.#cursor && this.notes.begin(this.#cursor.file, this.#cursor.row),
      z: () => this.files[this.#here()]?.fold(),
      W: () => this.files[this.#here()]?.whole(),
      V: () => this.turn(),
      L: () => this.#list(),
    }[key];
    if (act === undefined) return false;
    act();
    return true;
  }
}

const indent = (depth) => `padding-inline-start:${Math.min(8, depth) * 0.75}rem`;

/** The lines of the tree: directories, each once, and files below them. Directories with one entry share a line. */
export function treeLines(files) {
  const root = { directories: new Map(), files: [] };
  files.forEach(({ path }, number) => {
    const names = path.split("/");
    let at = root;
    for (const name of names.slice(0, -1)) {
      if (!at.directories.has(name)) at.directories.set(name, { directories: new Map(), files: [] });
      at = at.directories.get(name);
    }
    at.files.push({ number, name: names.at(-1) });
  });
  const found = [];
  const add = (node, depth) => {
    for (let [name, below] of node.directories) {
      while (below.files.length === 0 && below.directories.size === 1) {
        const [[next, inner]] = below.directories;
        [name, below] = [`${name}/${next}`, inner];
      }
      found.push({ depth, directory: name });
      add(below, depth + 1);
    }
    for (const file of node.files) found.push({ depth, ...file });
  };
  add(root, 0);
  return found;
}

export const changes = new Changes();
