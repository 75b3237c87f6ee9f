// Comments on the changes: drafts below the lines that they are about, the form of one, the list, and the round.

import { html, live, nothing, ref, render } from "./vendor/lit/lit.js";
import { refusal } from "./acts.js";
import { post, RequestFailed } from "./api.js";
import { quoteOf } from "./diff_file.js";
import { state } from "./state.js";
import { shown, shownLines } from "./words.js";

const COMMENT_MAX = 4_000;
const MODES = { auto: "auto: now, or when the agent can take it", idle: "idle: when its turn is over", urgent: "urgent: interrupts its turn" };
const rank = ({ path, side, last }) => [path === null ? 0 : 1, path ?? "", last ?? 0, side === "new" ? 1 : 0];
const anchor = ({ path, side, last }) => JSON.stringify([path ?? null, side ?? null, last ?? null]);

/** The order of the numbers of a round. */
function inOrder(one, other) {
  const [a, b] = [rank(one), rank(other)];
  const place = a.findIndex((value, index) => value !== b[index]);
  return place < 0 ? 0 : a[place] < b[place] ? -1 : 1;
}

/** `src/login.py:12-14`, as `sm review` names it. */
export function placeText({ path, side, first, last }) {
  if (path === null) return "the whole change";
  if (last === null) return `${path} (the whole file)`;
  const lines = first === null || first === last ? last : `${first}-${last}`;
  return `${path}:${lines}${side === "old" ? " (before the change)" : ""}`;
}

export class Notes {
  isOpen = false; // the list
  mode = "auto";
  #form = null; // {place, quote, text, id, problem, busy, file}
  #busy = false;

  constructor(page) {
    this.page = page;
    this.drafts = page.data.review.comments;
  }

  get rounds() {
    return this.page.data.review.rounds;
  }

  /** Why comments cannot be sent; null: they can. */
  get refusal() {
    return refusal("send", { session: this.page.session });
  }

  /** Why this login cannot comment; null: it can. Comments for an agent that has ended stay drafts. */
  get draftRefusal() {
    return state.hello?.scope === "look" ? this.refusal : null;
  }

  /** What a person has typed and not kept; null: nothing. */
  get unkept() {
    if (this.#form === null || !this.#form.text.trim()) return null;
    const { place, quote, text, id } = this.#form;
    return { ...place, quote, text, id };
  }

  // The form

  /** Begin a comment on a row of a file, on the file if that is null, or on all changes if both are. */
  begin(file, row, isRange = false) {
    const place = placeOf(file, row);
    const known = this.drafts.find((draft) => anchor(draft) === anchor(place));
    const before = this.#form;
    if (known) {
      this.edit(known, file);
      return;
    }
    if (isRange && before?.file === file && before.place.side === place.side && place.last !== null && before.place.last !== null) {
      const [first, last] = [before.place.first, place.last].sort((a, b) => a - b);
      const end = last === place.last ? row : before.row;
      this.#open({ ...before, place: { ...place, first, last }, quote: quoteOf(end), row: end });
    } else this.#open({ place, quote: row === null ? "" : quoteOf(row), text: "", id: null, problem: "", busy: false, file, row });
  }

  edit(draft, file = this.page.fileNamed(draft.path)) {
    const { path, side, first, last, quote, text, id } = draft;
    if (file?.isFolded) file.fold(false);
    const row = file && last !== null ? file.rowOf(draft) : null;
    this.#open({ place: { path, side, first, last }, quote, text, id, problem: "", busy: false, file, row });
  }

  #open(form) {
    const before = this.#form;
    this.#form = form;
    if (before?.file) this.place(before.file);
    if (form.file) {
      this.place(form.file);
      if (form.row) this.page.reveal(form.file, form.row);
    } else this.isOpen = true;
    this.page.draw();
    this.page.element.querySelector("form.note textarea")?.focus();
  }

  #close() {
    const { file } = this.#form;
    this.#form = null;
    if (file) this.place(file);
    this.page.draw();
    this.page.element.focus({ preventScroll: true });
  }

  async #save(event) {
    event.preventDefault();
    const form = this.#form;
    if (form.busy || !form.text.trim() || this.draftRefusal !== null) return;
    await this.#try(form, async () => {
      const { place, quote, text, id: replaces } = form;
      const kept = await post(this.page.path("drafts"), { ...place, quote, text, replaces: replaces ?? 0 });
      this.drafts = [...this.drafts.filter(({ id }) => id !== kept.id && id !== replaces), kept].sort(inOrder);
      if (this.#form === form) this.#close();
      this.placeAll();
    });
  }

  async remove(draft) {
    await this.#try({}, async () => {
      await post(this.page.path("discard"), { ids: [draft.id] });
      this.drafts = this.drafts.filter(({ id }) => id !== draft.id);
      if (this.#form?.id === draft.id) this.#close();
      this.placeAll();
    });
  }

  /** Send all drafts in one message. */
  async send() {
    if (this.#busy || this.drafts.length === 0 || this.refusal !== null) return;
    this.#busy = true;
    this.page.draw();
    const ids = this.drafts.map(({ id }) => id);
    await this.#try({}, async () => {
      const { round, words } = await post(this.page.path("send"), { ids, mode: this.mode, shown: this.page.data.shown });
      this.drafts = this.drafts.filter(({ id }) => !ids.includes(id));
      if (ids.includes(this.#form?.id)) this.#form.id = null; // its text is a new comment
      this.rounds.unshift({ number: round, tree: "sent", count: ids.length });
      this.isOpen = this.drafts.length > 0;
      this.page.tell(words, false);
      this.placeAll();
    });
    this.#busy = false;
    this.page.draw();
  }

  async #try(form, act) {
    Object.assign(form, { busy: true, problem: "" });
    this.#redraw(form);
    try {
      await act();
      form.busy = false;
    } catch (error) {
      if (!(error instanceof RequestFailed)) throw error;
      const words = error.hint ? `${error.message} (hint: ${error.hint})` : error.message;
      Object.assign(form, { busy: false, problem: words });
      if (form.place === undefined) this.page.tell(words);
    }
    this.#redraw(form);
  }

  #redraw(form) {
    if (form.file && this.#form === form) this.place(form.file);
    this.page.draw();
  }

  // Where they are

  placeAll() {
    for (const file of this.page.files) this.place(file);
    this.page.draw();
  }

  /** Show the drafts of a file below its header and its drawn rows. */
  place(file) {
    const own = this.drafts.filter(({ path }) => path === file.file.name);
    const form = this.#form?.file === file ? this.#form : null;
    file.marks = new Map();
    const mark = (row, entry) => file.marks.set(row.i, [...(file.marks.get(row.i) ?? []), entry]);
    const above = own.filter((draft) => {
      const row = draft.last === null ? null : file.rowOf(draft);
      if (row !== null && draft.id !== form?.id) mark(row, { draft });
      return draft.last === null && draft.id !== form?.id;
    });
    if (form?.row) mark(form.row, { form });
    render([...above.map((draft) => this.#draft(draft, file)), form && !form.row ? this.#formView(form) : nothing], file.noteHost);
    for (const block of file.blocks) if (block.drawn.size) this.drawRows(file, block);
  }

  drawRows(file, block) {
    for (const host of [...block.element.querySelectorAll(".row-notes")])
      if (!file.marks?.has(Number(host.dataset.row))) host.remove();
    for (const [number, marks] of file.marks ?? []) {
      const row = block.drawn.get(number);
      if (row === undefined) continue;
      let host = [...block.element.querySelectorAll(".row-notes")].find(({ dataset }) => Number(dataset.row) === number);
      if (host === undefined) {
        host = document.createElement("div");
        host.className = "row-notes";
        host.dataset.row = number;
        row.after(host);
      }
      render(marks.map(({ draft, form }) => (form ? this.#formView(form) : this.#draft(draft, file))), host);
    }
  }

  #draft(draft, file) {
    return html`<div class="note" data-draft=${draft.id}><p class="words">${shownLines(draft.text)}</p>
      <div class="buttons"><span class="tag">draft${draft.first !== null && draft.first !== draft.last ? `, lines ${draft.first}-${draft.last}` : ""}</span>
        <button class="act small" @click=${() => this.edit(draft, file ?? undefined)}>Edit</button>
        <button class="act small" @click=${() => this.remove(draft)}>Delete</button></div></div>`;
  }

  #formView(form) {
    const why = this.draftRefusal;
    const type = (event) => {
      form.text = event.target.value;
      this.#redraw(form);
    };
    const keys = (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#save(event);
      else if (event.key === "Escape") {
        event.stopPropagation();
        if (!form.text.trim() || form.text === this.drafts.find(({ id }) => id === form.id)?.text) this.#close();
      }
    };
    const grow = ref((element) => element && requestAnimationFrame(() => element.style.setProperty("height", `${Math.max(72, element.scrollHeight + 2)}px`)));
    return html`<form class="note" @submit=${(event) => this.#save(event)}>
      <label class="hint" for="${this.page.prefix}note-text">Comment on ${placeText(form.place)}</label>
      <textarea id="${this.page.prefix}note-text" rows="3" maxlength=${COMMENT_MAX} ${grow} .value=${live(form.text)} @input=${type} @keydown=${keys}></textarea>
      ${form.problem ? html`<p class="problem" role="alert">${form.problem}</p>` : nothing}
      <div class="buttons"><button class="act small go" aria-disabled=${why !== null || form.busy || !form.text.trim()} title=${why ?? nothing}>${form.busy ? "Keeping" : "Keep as a draft"}</button>
        <button type="button" class="act small" @click=${() => this.#close()}>Cancel</button>${why ? html`<span class="hint">${why}</span>` : html`<span class="hint for-keys">Shift and another number: several lines</span>`}</div></form>`;
  }

  /** The list of drafts, with the button that sends them. */
  list() {
    const why = this.refusal;
    if (!this.isOpen) return nothing;
    const free = this.#form?.file === null ? this.#formView(this.#form) : nothing;
    return html`<section class="drafts" aria-label="Drafts">
      ${this.drafts.length ? nothing : html`<p class="hint">No drafts. A press on the number of a line begins a comment.</p>`}
      <ol>${this.drafts.map((draft) => html`<li><button class="plain" @click=${() => this.page.showDraft(draft)}>${shown(placeText(draft), 300)}</button>
        ${draft.quote ? html`<code>${shown(draft.quote.replaceAll("\t", "  "), 200)}</code>` : nothing}${this.#draft(draft, null)}</li>`)}</ol>
      ${free}
      <div class="buttons"><button class="act small" @click=${() => this.begin(null, null)}>Comment on all changes</button>
        <label><span class="unseen">Delivery</span><select @change=${(event) => {
          this.mode = event.target.value;
        }}>${Object.entries(MODES).map(([name, title]) => html`<option value=${name} ?selected=${name === this.mode}>${title}</option>`)}</select></label>
        <button class="act go" data-act="send-round" aria-disabled=${why !== null || this.#busy || this.drafts.length === 0} title=${why ?? nothing}
          @click=${() => this.send()}>${this.#busy ? "Sending" : `Send ${this.drafts.length} ${this.drafts.length === 1 ? "comment" : "comments"}`}</button>
        ${why ? html`<span class="hint">${why}</span>` : nothing}</div></section>`;
  }
}

function placeOf(file, row) {
  if (file === null) return { path: null, side: null, first: null, last: null };
  const path = file.file.name;
  if (row === null) return { path, side: null, first: null, last: null };
  const side = row.now === null ? "old" : "new";
  const last = row.now ?? row.old;
  return { path, side, first: last, last };
}
