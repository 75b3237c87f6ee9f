// The tree of sessions: rows of a fixed height, drawn only where they are in sight, which hold still while pointed at.

import { guard as unchanged, html, nothing, repeat } from "./vendor/lit/lit.js";
import { begin, isForbidden } from "./acts.js";
import { chooseColumns, columnTitles } from "./columns.js";
import { keepView, lines, nowS, rowOf, state } from "./state.js";
import { go, isId, sessionPath, ui } from "./ui.js";
import { span } from "./words.js";

const LOUD = ["waits", "failed"]; // by urgency: the others are quiet
const REST_MS = 2000;
const EXTRA = 8;
let restTimer = 0;
let rests = true;
let pointed = false;
let height = 36;

/** Tell the server that the order may be taken anew only when the list rests. */
function note(nowRests) {
  if (rests === nowRests) return;
  rests = nowRests;
  ui.connection?.send({ t: "rests", rests });
}

export function touch() {
  note(false);
  clearTimeout(restTimer);
  restTimer = setTimeout(() => pointed || note(true), REST_MS);
}

const enter = () => {
  pointed = true;
  touch();
};
const leave = () => {
  pointed = false;
  touch();
};
const scrolled = () => {
  touch();
  ui.drawNow();
};
export const sayRests = () => ui.connection?.send({ t: "rests", rests });

/** Tell the server which rows this tab shows. */
export function sendView() {
  const { sort, filter, archived, folded } = state.view;
  keepView();
  ui.connection?.send({ t: "view", workspace: state.workspace, sort, filter, archived, folded: [...folded] });
}

export function choose(slug) {
  state.workspace = slug;
  sendView();
  if (!lines().some(([id]) => id === state.selected)) select(lines()[0]?.[0] ?? null);
  ui.drawNow();
}

let told = null; // the selection that the server knows

export const forgetSelection = () => {
  told = null;
};

/** Tell the server which session is selected, as soon as its row is known or its page is open. */
export function syncSelection() {
  const id = state.selected;
  if (id === told || id === null || !(state.rows.has(id) || (id === ui.route.session && isId(id)))) return;
  if (ui.connection?.send({ t: "select", session: id })) told = id;
}

export function select(id, reveal = true) {
  state.selected = id;
  syncSelection();
  ui.drawNow();
  if (reveal && id !== null) scrollTo(id);
}

function scrollTo(id) {
  const place = lines().findIndex(([lineId]) => lineId === id);
  const area = document.querySelector(".rows");
  if (place < 0 || area === null) return;
  const scroller = area.closest(".tree");
  const top = place * height;
  if (scroller.scrollHeight > scroller.clientHeight + 1) {
    const head = area.offsetTop;
    if (top + head < scroller.scrollTop + head) scroller.scrollTop = top;
    else if (top + height + head > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + height + head - scroller.clientHeight;
  } else document.getElementById(`row-${id}`)?.scrollIntoView({ block: "nearest" });
  ui.drawNow();
}

export function move(steps) {
  touch();
  const list = lines();
  if (list.length === 0) return;
  const place = list.findIndex(([id]) => id === state.selected);
  const next = place < 0 ? 0 : Math.min(Math.max(place + steps, 0), list.length - 1);
  select(list[next][0]);
  // Beside the list, the page of a session follows the selection.
  const isBeside = ui.route.page === "session" && document.getElementById("treegrid")?.offsetParent;
  if (isBeside) location.replace(sessionPath(list[next][0], ui.route.tab));
}

/** `folded`: true, false, or null for the other of both. */
export function fold(id, folded = null) {
  touch();
  const line = lines().find(([lineId]) => lineId === id);
  if (line === undefined || !line[4]) return false;
  const is = state.view.folded.has(id);
  const wanted = folded ?? !is;
  if (is === wanted) return false;
  if (wanted) state.view.folded.add(id);
  else state.view.folded.delete(id);
  sendView();
  return true;
}

function visibleRange(count) {
  const area = document.querySelector(".rows");
  if (area === null) return [0, Math.min(count, Math.ceil(innerHeight / height) + EXTRA)]; // the first drawing
  const { top } = area.getBoundingClientRect();
  const scroller = area.closest(".tree").getBoundingClientRect();
  const from = Math.max(0, scroller.top) - top;
  const until = Math.min(innerHeight, scroller.bottom) - top;
  const first = Math.max(0, Math.floor(from / height) - EXTRA);
  return [first, Math.max(first, Math.min(count, Math.ceil(until / height) + EXTRA))]; // none while the list is below the window
}

function measure() {
  height = document.getElementById("row-size")?.getBoundingClientRect().height || height;
  return chooseColumns(document.querySelector(".tree")?.clientWidth || innerWidth);
}

export function tree() {
  const columns = measure();
  const { names } = columns;
  const list = lines();
  let [from, until] = visibleRange(list.length);
  const chosen = list.findIndex(([id]) => id === state.selected);
  const drawn = list.slice(from, until).map((line, index) => [line, from + index]);
  if (chosen >= 0 && (chosen < from || chosen >= until)) drawn.push([list[chosen], chosen]);
  const now = nowS();
  const active = chosen >= 0 ? `row-${state.selected}` : nothing;
  return html`<section class=${columns.isTight ? "tree tight" : "tree"} aria-labelledby="tree-title" @pointerenter=${enter} @pointerleave=${leave}
      @pointermove=${touch} @scroll=${scrolled}>
    <h2 id="tree-title" class="unseen">Sessions</h2>
    <div role="treegrid" tabindex="0" id="treegrid" aria-labelledby="tree-title" aria-rowcount=${list.length + 1}
      aria-activedescendant=${active} aria-colcount=${names.length + 3}>
      <div role="rowgroup" class=${list.length ? "head-group" : "head-group none"}>
        <div role="row" class="row head" aria-rowindex="1">
          ${columnTitles(names).map(([name, title]) => html`<span role="columnheader" class="c-${name}">${title}</span>`)}
        </div>
      </div>
      <div role=${list.length ? "rowgroup" : "presentation"} class="rows" .style=${`height:${list.length * height}px`}>
        <div class="row" id="row-size" aria-hidden="true" role="presentation"></div>
        ${repeat(drawn, ([line]) => line[0], ([line, place]) => rowItem(line, place, now, names))}
      </div>
    </div>
    ${list.length === 0 ? empty() : nothing}
    ${state.earlier && state.placed === state.workspace ? html`<p class="earlier"><a href="#/earlier">${state.earlier}</a></p>` : nothing}
  </section>`;
}

/** Words in place of the rows: "none" and "not known" are never the same. */
function empty() {
  if (!state.receivedAt) return html`<p class="empty">Loading the sessions.</p>`;
  if (state.loading && state.daemonLostSince !== null) {
    return html`<p class="empty">Your sessions are not known without the daemon. To start it: <kbd>sm daemon start</kbd>. Agents keep running without it.</p>`;
  }
  if (state.loading) return html`<p class="empty">Loading the sessions.</p>`;
  if (state.view.filter) return html`<p class="empty">No session matches the filter.</p>`;
  if (state.workspace || state.rows.size || state.earlier) {
    return html`<p class="empty">No sessions here. To start one: <kbd>sm spawn TYPE TASK</kbd></p>`;
  }
  return html`<div class="first"><h3>No sessions here. The first three steps:</h3><ol>${state.hello.first_steps.map(([title, command, action]) =>
    html`<li>${title}: <kbd>${command}</kbd>${action && !isForbidden(action) ? html` <button class="act go" @click=${() => begin(action, {})}>Start an agent</button>` : nothing}</li>`)}</ol>
    <p class="hint">To see it at work without a project of your own: <kbd>sm demo</kbd></p></div>`;
}

function rowItem(line, place, now, columns) {
  const [id, branch, folded, depth, children] = line;
  const row = rowOf(id);
  if (row === undefined) return nothing;
  const age = span(now - row.since);
  const gone = !state.rows.has(id);
  const selected = id === state.selected;
  return unchanged([row, branch, folded, depth, children, place, age, gone, selected, height, state.workspace, columns.join()], () => {
    const click = (event) => {
      touch();
      if (event.target.closest(".twisty:not(.leaf)")) fold(id);
      else {
        select(id, false);
        go(sessionPath(id, ui.route.page === "session" ? ui.route.tab : "peek"));
      }
    };
    return html`<div id="row-${id}" role="row" aria-rowindex=${place + 2} aria-level=${depth + 1} aria-selected=${selected}
        aria-expanded=${children ? String(!folded) : nothing} data-session=${id} data-status=${row.status ?? row.word}
        class="row ${row.over || gone ? "over" : ""} ${selected ? "selected" : ""} ${gone ? "" : LOUD[row.urgency] ?? ""}"
        .style=${`transform:translateY(${place * height}px)`} @click=${click}>
      <span role="gridcell" class="c-session"><span class="branch" aria-hidden="true">${branch}</span><span class=${children ? "twisty" : "twisty leaf"} aria-hidden="true">${children ? (folded ? "▸" : "▾") : ""}</span><span class="sign s-${statusClass(row)}" aria-hidden="true">${row.sign}</span><span class="label" title=${row.label}>${row.label}</span><span class="marks">${folded
          ? html`<span class="tag">+${folded}</span>` : nothing}${(row.badges ?? []).map((badge) => html`<span class="tag">${badge}</span>`)}${row.held
          ? html`<span class="tag" title="messages held">✉${row.held}</span>` : nothing}${row.workspace && depth === 0 && !state.workspace
          ? html`<span class="tag of-workspace" title="workspace">@${row.workspace}</span>` : nothing}</span></span>
      <span role="gridcell" class="c-status s-${statusClass(row)}">${gone ? "gone" : `${row.word} ${age}`}</span>
      ${columns.map((name) => html`<span role="gridcell" class="c-${name}">${CELLS[name](row)}</span>`)}
      <span role="gridcell" class="c-task">${row.task}</span>
    </div>`;
  });
}

const sums = (row) => (row.tree_cost && row.tree_cost !== row.cost ? html` <span class="sum" title="with its descendants">∑${row.tree_cost}</span>` : nothing);

const CELLS = {
  done: (row) => row.progress,
  context: (row) => contextBar(row),
  cost: (row) => html`${row.cost}${sums(row)}`,
  tokens: (row) => row.tokens,
  model: (row) => row.model,
};

export function statusClass(row) {
  if (row.requests?.length || row.word?.startsWith("waiting")) return "waiting";
  if (row.stale) return "stale";
  return row.status ?? row.word?.replace("?", "") ?? "";
}

export function contextBar(row) {
  const percent = row.context_percent;
  if (percent == null) return "-";
  return html`<svg class="bar" viewBox="0 0 40 8" aria-hidden="true" preserveAspectRatio="none"><rect class="bar-all" width="40" height="8" rx="2"></rect><rect
    class=${percent >= 80 ? "bar-full" : "bar-used"} width=${Math.max(1, Math.min(40, percent * 0.4))} height="8" rx="2"></rect></svg> ${percent}%`;
}
