// The region of what needs a person: a queue of requests, failures, messages and troubles, then of what is done.

import { html, nothing, repeat } from "./vendor/lit/lit.js";
import { batchBar, markSeen, openBatch } from "./need_batch.js";
import { menuView } from "./need_menu.js";
import { needItem } from "./need_row.js";
import { keepOnly } from "./proposals.js";
import { arrange, focusNeed, guard, hasEquals, lineOf, needKey as keyOfNeed, seeDrawn } from "./queue.js";
import { nowS, state } from "./state.js";
import { go, sessionPath, ui } from "./ui.js";
import { clock, span } from "./words.js";

export { focusedNeed, focusNeed, moveNeed, notePassed, settle } from "./queue.js";

let wake = 0;
let list = [];
const isDone = (need) => need.kind === "done";
const urgentNeeds = () => state.needs.filter((need) => !isDone(need));

/** A key for a line of the queue. Return whether it was one. */
export const needKey = (need, key) => keyOfNeed(need, key, openBatch);

/** Show a request, on another page if this one has no place for it, and focus it. */
export function revealNeed(need) {
  if (!lineOf(need.key)?.offsetParent) go(need.has_changes ? sessionPath(need.session_id, "changes") : "#/");
  setTimeout(() => focusNeed(need.key));
}

function title() {
  const urgent = urgentNeeds().length;
  const done = state.needs.length > urgent ? `; done, not seen yet: ${state.needs.length - urgent}` : "";
  if (urgent > 0) return `Needs you: ${urgent}${done}`;
  if (!state.quietSince) return `${state.loading ? "Needs you: loading" : "Nothing needs you"}${done}`;
  return `Nothing needs you since ${clock(state.quietSince)} (${span(nowS() - state.quietSince)})${done}`;
}

/** Marks all of a kind as seen at once. */
function seenButton(kind, word) {
  const found = state.needs.filter((need) => need.kind === kind && need.actions?.seen === null);
  if (found.length === 0 || (kind === "failed" && found.length === 1)) return nothing;
  return html`<button class="plain" data-act="seen-${kind}" @click=${() => markSeen(found)}>Mark ${found.length} ${word} as seen</button>`;
}

export function needsRegion() {
  list = arrange();
  seeDrawn(list);
  clearTimeout(wake);
  const ms = guard.nextMs(performance.now());
  if (ms > 0) wake = setTimeout(ui.drawNow, ms + 5);
  const own = besideChanges();
  keepOnly(new Set(state.needs.map(({ key }) => key)), own?.key);
  const first = new Map();
  for (const need of list) if (!need.ghost && hasEquals(need) && !first.has(need.equal.keys[0])) first.set(need.equal.keys[0], need.key);
  const item = (need) => needItem(need, { isFirst: hasEquals(need) && first.get(need.equal.keys[0]) === need.key });
  const shown = list.filter((need) => need.key !== own?.key);
  return html`<section class="needs" aria-labelledby="needs-title" data-count=${urgentNeeds().length} data-busy=${state.needs.some(({ kind }) => kind === "request")}>
    <div class="needs-head"><h2 id="needs-title" tabindex="-1" class=${urgentNeeds().length ? "urgent" : "calm"}>${title()}</h2>
      <div class="needs-acts">${seenButton("failed", "failed")}${seenButton("done", "done")}</div></div>
    ${own === null ? nothing : html`<p class="hint">${own.key} stands above the changes.</p>`}
    ${shown.length === 0 ? nothing : html`<div class="need-scroll"><ul class="need-list">${repeat(shown, (need) => need.key, item)}</ul></div>`}
    ${batchBar()}${menuView()}
  </section>`;
}

/** The proposed completion that stands beside the tab with the changes; null: there is none. */
function besideChanges() {
  const { page, session, tab } = ui.route;
  if (page !== "session" || tab !== "changes") return null;
  return list.find((need) => need.has_changes && need.session_id === session) ?? null;
}

/** A proposed completion, with the buttons that answer it, above the changes of its session. */
export function needBesideChanges() {
  const need = besideChanges();
  return need === null ? nothing : html`<ul class="need-list above-changes">${repeat([need], ({ key }) => key, (one) => needItem(one, { hasPage: true }))}</ul>`;
}
