// Answers several requests of the queue: the bar with what is selected, and the list of what will be done.

import { html, live, nothing } from "./vendor/lit/lit.js";
import { send, wordsOf } from "./acts.js";
import { close, frame } from "./dialogs.js";
import { DEAD_MS } from "./guard.js";
import { bodyLine } from "./need_row.js";
import { clearSelection, failures, hasEquals, selected, selectedNeeds, selectEqual } from "./queue.js";
import { state } from "./state.js";
import { tell, ui } from "./ui.js";

const VERBS = { approve: ["Approve", "approved"], deny: ["Deny", "denied"], seen: ["Mark as seen", "marked as seen"] };
const groupOf = (need) => need.equal?.keys[0] ?? need.key;
const requests = (count) => (count === 1 ? "1 request" : `${count} requests`);

/** What the selected requests have in common. */
function sentenceOf(list) {
  const groups = new Set(list.map(groupOf)).size;
  if (list.some((need) => need.kind !== "request")) return "";
  if (groups === 1) return hasEquals(list[0]) ? list[0].equal.words : "";
  return `${groups} different requests`;
}

export function batchBar() {
  const list = selectedNeeds();
  if (list.length === 0) return nothing;
  const areRequests = list.every((need) => need.kind === "request");
  const areSeen = list.every((need) => need.kind !== "request");
  const equal = areRequests && hasEquals(list[0]) && new Set(list.map(groupOf)).size === 1 && list.length < list[0].equal.keys.length;
  return html`<div class="batch" role="group" aria-label="Selection"><span><b>${list.length} selected</b> <span class="hint">${
    areRequests || areSeen ? sentenceOf(list) : "requests and ended agents: select only one of both"}</span></span>
    <div class="buttons">
    ${areRequests ? html`<button class="act small go" data-act="approve-all" @click=${() => openBatch("approve")}>Approve ${list.length}…</button>
      <button class="act small stop" data-act="deny-all" @click=${() => openBatch("deny")}>Deny ${list.length}…</button>` : nothing}
    ${equal ? html`<button class="act small" @click=${() => selectEqual(list[0])}>Select all ${list[0].equal.keys.length} equal</button>` : nothing}
    ${areSeen ? html`<button class="act small" data-act="seen-all" @click=${() => markSeen(list)}>Mark ${list.length} as seen</button>` : nothing}
    <button class="act small" data-act="clear" @click=${clearSelection}>Clear</button></div></div>`;
}

/** Show the list of what will be done. What changes from now on is left out. */
export function openBatch(action) {
  ui.dialog = { kind: "batch", action, list: selectedNeeds(), text: "", at: performance.now(), done: new Map(), isBusy: false, problem: "" };
  setTimeout(ui.draw, DEAD_MS + 5);
  ui.drawNow();
}

/** Why this request is not answered with the others; empty: it is. */
function objection(need) {
  const now = state.needs.find(({ key }) => key === need.key);
  if (now === undefined) return "no longer open";
  return now.digest === need.digest ? "" : "it has changed since it was shown";
}

async function run(dialog) {
  if (dialog.isBusy) return;
  if (performance.now() - dialog.at < DEAD_MS) {
    dialog.problem = "Too early: the list has just appeared. Press again.";
    ui.drawNow();
    return;
  }
  dialog.isBusy = true;
  dialog.problem = "";
  for (const need of dialog.list) {
    const why = objection(need);
    const target = { session: need.session_id, need: need.key, shown: need.digest, text: dialog.text.trim(), answers: [] };
    if (why === "") ui.answered.add(need.key);
    const done = why === "" ? await send(dialog.action, target) : { ok: false, words: why };
    ui.answered.delete(need.key);
    dialog.done.set(need.key, done);
    ui.drawNow();
  }
  finish(dialog);
}

function finish(dialog) {
  const failed = dialog.list.filter(({ key }) => !dialog.done.get(key).ok);
  const count = dialog.list.length - failed.length;
  for (const need of dialog.list) selected.delete(need.key);
  for (const need of failed) failures.set(need.key, { digest: need.digest, words: wordsOf(dialog.done.get(need.key)) });
  const words = `${VERBS[dialog.action][1]}: ${count} of ${dialog.list.length}`;
  tell(failed.length ? `${words}; ${failed.length} failed` : words, failed.length > 0);
  dialog.isBusy = false;
  if (failed.length === 0 && ui.dialog === dialog) close();
  ui.drawNow();
}

export function batchDialog(dialog) {
  const [verb, past] = VERBS[dialog.action];
  const isOver = dialog.done.size === dialog.list.length;
  const isEarly = performance.now() - dialog.at < DEAD_MS;
  const failed = [...dialog.done.values()].filter((done) => !done.ok).length;
  const submit = (event) => {
    event.preventDefault();
    run(dialog);
  };
  const keys = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.target.tagName !== "TEXTAREA") return;
    event.preventDefault();
    run(dialog);
  };
  const groups = new Map();
  for (const need of dialog.list) groups.set(groupOf(need), [...(groups.get(groupOf(need)) ?? []), need]);
  return frame(isOver && failed ? `${dialog.list.length - failed} ${past}, ${failed} failed` : `${verb} ${requests(dialog.list.length)}?`, html`<form class="batch-form" @submit=${submit} @keydown=${keys}>
    <p>${sentenceOf(dialog.list)}</p>
    <div class="batch-groups" tabindex="0" role="region" aria-label="What is answered">${[...groups.values()].map((group) => groupView(dialog, group))}</div>
    ${dialog.action === "deny" && !isOver ? html`<label>Why not? Each agent reads it; it may be empty.
      <textarea rows="2" maxlength="10000" data-first .value=${live(dialog.text)} @input=${(event) => (dialog.text = event.target.value)}></textarea></label>` : nothing}
    ${dialog.problem ? html`<p class="problem" role="alert">${dialog.problem}</p>` : nothing}
    <div class="buttons">${isOver ? nothing : html`<button class="act ${dialog.action === "deny" ? "stop" : "go"}" data-act="do-batch" ?data-first=${dialog.action !== "deny"} aria-disabled=${isEarly || dialog.isBusy}>
        ${dialog.isBusy ? `${dialog.done.size} of ${dialog.list.length}` : `${verb} ${dialog.list.length}`}</button>`}
      <button type="button" class="act" @click=${close}>${isOver ? "Close" : "Cancel"}</button></div></form>`);
}

/** Equal requests with their words once, then each with its agent, and with the remarks that only this one has. */
function groupView(dialog, group) {
  const isTitle = (line) => line.endsWith(":") && !line.includes("|");
  const common = group[0].lines.filter((line) => group.every(({ lines }) => lines.includes(line)))
    .filter((line, place, all) => !isTitle(line) || (all[place + 1] !== undefined && !isTitle(all[place + 1])));
  const own = ({ lines }) => lines.filter((line) => !common.includes(line)).join(" ");
  return html`<section>${common.length ? html`<pre class="quoted">${common.map(bodyLine)}</pre>` : html`<p>${group[0].text}</p>`}
    <ul>${group.map((need) => html`<li data-batch=${need.key}><b>${need.key}</b> ${need.label} ${need.workspace ? html`<span class="tag">${need.workspace}</span>` : nothing}
      <span class="hint">${own(need)}</span> ${outcome(dialog, need)}</li>`)}</ul></section>`;
}

function outcome(dialog, need) {
  const done = dialog.done.get(need.key);
  if (done !== undefined) return done.ok ? html`<span class="hint">✓ ${VERBS[dialog.action][1]}</span>` : html`<span class="problem">${wordsOf(done)}</span>`;
  const why = objection(need);
  return why ? html`<span class="problem">${why}</span>` : nothing;
}

/** Mark ended agents as seen, one after the other. */
export async function markSeen(list) {
  let count = 0;
  for (const need of list) {
    const done = await send("seen", { session: need.session_id, need: null });
    if (done.ok) count += 1;
    else failures.set(need.key, { digest: need.digest, words: wordsOf(done) });
    selected.delete(need.key);
  }
  tell(`marked as seen: ${count} of ${list.length}`, count < list.length);
}
