// The changes beside a request that proposes a completion: their numbers, the changes themselves, and the draft comments.

import { html, nothing } from "./vendor/lit/lit.js";
import { get } from "./api.js";
import { ui } from "./ui.js";

const found = new Map(); // by the key of a request: {digest, counts, problem}
const asked = new Map(); // the drafts for a denial, by the key of its request: {list, problem}
let waiting = []; // the requests whose changes are not counted yet
let isCounting = false;
const beside = { key: null, page: null, hasFailed: false }; // the request whose changes are unfolded

const path = (need, act) => `/changes/${encodeURIComponent(need.session_id)}/${act}`;

/** Count the changes of one request after the other, each once: git takes time, and nothing waits for it. */
async function count() {
  if (isCounting) return;
  isCounting = true;
  while (waiting.length > 0) {
    const need = waiting.shift();
    const entry = found.get(need.key);
    if (entry?.digest !== need.digest) continue;
    try {
      entry.counts = await get(path(need, "counts"));
    } catch (error) {
      entry.problem = error.message;
    }
    ui.draw();
  }
  isCounting = false;
}

function entryOf(need) {
  const known = found.get(need.key);
  if (known?.digest === need.digest) return known;
  const entry = { digest: need.digest, counts: null, problem: "" };
  found.set(need.key, entry);
  waiting.push(need);
  count();
  return entry;
}

/** Forget requests that are not open any more. `above`: the request that stands above its changes, which fold here. */
export function keepOnly(keys, above) {
  for (const key of found.keys()) if (!keys.has(key)) found.delete(key);
  for (const key of asked.keys()) if (!keys.has(key)) asked.delete(key);
  waiting = waiting.filter(({ key }) => keys.has(key));
  if (beside.key !== null && (!keys.has(beside.key) || beside.key === above)) fold();
}

function fold() {
  beside.page?.close();
  beside.key = null;
}

function unfold(need) {
  fold();
  if (found.get(need.key)?.problem) found.delete(need.key); // count again
  beside.key = need.key;
  if (beside.page !== null) beside.page.open(need.session_id);
  else {
    import("./changes.js").then(({ Changes }) => {
      beside.page ??= new Changes("beside-");
      if (beside.key === need.key) beside.page.open(need.session_id);
      ui.draw();
    }, () => {
      beside.hasFailed = true;
      ui.draw();
    });
  }
}

export const isUnfolded = (need) => beside.key === need.key;

const files = (count) => (count === 1 ? "1 file" : `${count.toLocaleString("en-US")} files`);

function summary({ counts, problem }) {
  if (problem) return html`<span class="hint">${problem}</span>`;
  if (counts === null) return html`<span class="hint">counting</span>`;
  return html`${files(counts.count)} <span class="counts"><span class="plus">+${counts.added.toLocaleString("en-US")}</span> <span class="minus">−${counts.deleted.toLocaleString("en-US")}</span></span>`;
}

/** The changes of the session that asks, folded to a line. */
export function changesBeside(need) {
  const isOpen = isUnfolded(need);
  const toggle = () => {
    if (isOpen) fold();
    else unfold(need);
    ui.drawNow();
  };
  const page = beside.page === null
    ? html`<p class=${beside.hasFailed ? "problem" : "empty"}>${beside.hasFailed ? "A part of this page could not be loaded. Reload the page." : "Loading."}</p>`
    : beside.page.element;
  return html`<div class="need-changes ${isOpen ? "open" : ""}">
    <button class="plain" data-act="changes" aria-expanded=${isOpen} @click=${toggle}><span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> Changes: ${summary(entryOf(need))}</button>
    ${isOpen ? page : nothing}</div>`;
}

// Draft comments

/** What shows the changes of the session now; null: nothing does. */
function pageOf(need) {
  if (isUnfolded(need) && beside.page?.notes) return beside.page;
  return ui.route.tab === "changes" && ui.changes?.session === need.session_id && ui.changes.notes ? ui.changes : null;
}

/** The person's drafts, which go with a denial. `list`: null until they are known. */
export function draftsFor(need) {
  const page = pageOf(need);
  if (page !== null) {
    forgetDrafts(need); // they may be others when no page shows them any more
    return { list: page.notes.drafts, problem: "" };
  }
  const known = asked.get(need.key);
  if (known !== undefined) return known;
  const entry = { list: null, problem: "" };
  asked.set(need.key, entry);
  get(path(need, "drafts"))
    .then(({ drafts }) => (entry.list = drafts), (error) => Object.assign(entry, { list: [], problem: error.message }))
    .finally(() => ui.draw());
  return entry;
}

/** Ask for the drafts again, when they are shown next. */
export const forgetDrafts = (need) => asked.delete(need.key);

/** Look at the drafts again when a denial was refused: another window may have changed them. */
export async function readDraftsAgain(need) {
  forgetDrafts(need);
  const notes = pageOf(need)?.notes;
  if (!notes) return;
  try {
    notes.drafts = (await get(path(need, "drafts"))).drafts;
  } catch {
    return; // the refusal is told already
  }
  notes.placeAll();
  ui.draw();
}

/** A comment that is being typed, and would not go with a denial. */
export const hasUnkept = (need) => (pageOf(need)?.notes.unkept ?? null) !== null;

/** What a denial sends of the drafts: their ids, and the list of changes that they are about. */
export function roundOf(need) {
  const { list } = draftsFor(need);
  if (!list?.length) return {};
  return { drafts: list.map(({ id }) => id), changes: pageOf(need)?.data.shown ?? "" };
}

/** Show what has become of the drafts that a denial has sent. */
export function afterDenial(need) {
  forgetDrafts(need);
  if (ui.changes?.session === need.session_id) ui.changes.load();
}
