// When each session had which status: first what a person must know, then the load over time, then a lane for each session.

import { html, nothing } from "./vendor/lit/lit.js";
import { get } from "./api.js";
import { colour, TimeChart, Tip, uPlot, zoomKey } from "./chart.js";
import { chartPage, loaded, suitRange, timeWords, zoomTo } from "./chart_range.js";
import { LaneCanvas } from "./lane_canvas.js";
import { reveal } from "./reveal.js";
import { rowOf, state } from "./state.js";
import { go, sessionPath, ui } from "./ui.js";
import { clock, shown, span } from "./words.js";

const HEIGHT = 112;
const FAILURES_MAX = 4;
const FAILED = ["error", "abandoned"];
const DRAG_PX = 6;
const AREA_ALPHA = "80"; // the line above the area is in sight
const isTouch = matchMedia("(pointer: coarse)");
const LANES_HINT = isTouch.matches ? "Tap a span or a mark to open its event. Drag to the side to zoom."
  : "Point at a span or a mark, or use the arrows; click or Enter opens its event. Drag to zoom; keys: + zoom, − back.";

const opened = { failures: false, table: false };
const models = new WeakMap();
const picked = { lane: 0, name: "" };
let shownView = null;
let drawnView = null;

/** The width of the names, which is also that of the axis of the load, so that both times are below each other. */
const namesPx = () => (innerWidth <= 760 ? 112 : 208);

export function page() {
  const { workspace } = state;
  const read = async (since, until) => {
    const view = await get("/lanes", { since, until, workspace: workspace || null });
    performance.mark("sm timeline read");
    return view;
  };
  let { data: view, error } = loaded("timeline", "", read);
  if (view?.lanes.length && suitRange("timeline", Math.min(...view.lanes.map(({ spans }) => spans[0][1])))) ({ data: view, error } = loaded("timeline", "", read));
  return chartPage("Timeline", nothing, html`${error ? html`<p class="problem">${error}</p>` : nothing}
    ${view === null ? (error ? nothing : html`<p class="empty">Loading.</p>`) : timeline(view)}`);
}

function timeline(view) {
  load.show(modelOf(view));
  if (view.lanes.length === 0) return html`<p class="empty">No session was alive in this time.</p>${load.element}`;
  shownView = view;
  queueMicrotask(drawLanes); // when the page has a place for them
  const cut = view.cut.length ? html`<p class="hint">There are more marks (${view.cut.join(", ")}) than one picture shows. Zoom in to see all.</p>` : nothing;
  return html`${summary(view)} ${cut}
    <div class="load">${legend(view)}${load.element}</div>
    <figure class="lane-box" tabindex="0" aria-label=${LANES_HINT} @keydown=${laneKeys}>
      <ol class="lane-names">${view.lanes.map((lane) => html`<li class=${lane.marks.some(([kind]) => view.failed.includes(kind)) ? "failed" : ""}>
        <a class="lane-name depth-${Math.min(lane.depth, 5)}" href=${sessionPath(lane.session)} title=${lane.label}>${lane.label}</a></li>`)}</ol>
      <div class="lane-area">${canvas.element}${select}${tip.element}</div>
      <figcaption><span role="status">${pickedWords(view) ?? LANES_HINT}</span></figcaption></figure>
    ${table(view)}`;
}

/** What went wrong, and how long agents waited: the answer to "how was the night?". */
function summary({ summary: { waiting_words: waiting, failure_words: failed, longest_id: longest, longest_label: label, failures } }) {
  const listed = opened.failures ? failures : failures.slice(0, FAILURES_MAX);
  const rest = failures.length - listed.length;
  return html`<div class="night">
    <p class="headline"><b class=${longest ? "waited" : ""}>${waiting}</b>${longest ? html` (<a href=${sessionPath(longest)}>${label}</a>)` : nothing}</p>
    <p class=${failures.length ? "headline loud" : "headline"}>${failed}</p>
    ${failures.length === 0 ? nothing : html`<ul class="failures">${listed.map((failure) => html`<li><a href="#/events/${failure.seq}" title="Show the event"><b>✗ ${clock(failure.at)}</b></a>
        <a href=${sessionPath(failure.session)}>${failure.label}</a> <span class="hint">${causeOf(failure, failures)}</span></li>`)}</ul>
      ${rest > 0 ? html`<button class="act small" @click=${() => {
        opened.failures = true;
        ui.drawNow();
      }}>${rest} more</button>` : nothing}`}</div>`;
}

/** Why a session failed. A crash says nothing of it, but the last words before it may. */
function causeOf({ session, text, seq }, failures) {
  const row = rowOf(session);
  const isNewest = seq === failures.findLast((one) => one.session === session).seq;
  const words = isNewest && text.startsWith("crashed") && FAILED.includes(row?.status) ? /: "[^]*/.exec(row.task) : null;
  return words === null ? text : text + words[0];
}

// The load

function modelOf(view) {
  if (models.has(view)) return models.get(view);
  const parts = view.waiting.length;
  const step = (view.until - view.since) / parts;
  const most = Math.max(...view.waiting, ...view.working, 1);
  // One time more, so that the last part has a width.
  const times = Array.from({ length: parts + 1 }, (_, part) => view.since + part * step);
  const stepped = uPlot.paths.stepped({ align: 1 });
  const model = {
    view,
    since: view.since, until: view.until, step, parts, top: most * 1.15,
    left: namesPx(),
    incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500],
    data: [times, [...view.waiting, view.waiting.at(-1)], [...view.working, view.working.at(-1)]],
    // The later one is above the other.
    series: [
      { name: `waiting ${namesPx()}`, options: { paths: stepped, stroke: () => colour("--yellow"), fill: () => `${colour("--yellow")}${AREA_ALPHA}`, width: 2, points: { show: false } } },
      { name: "working", options: { paths: stepped, stroke: () => colour("--green"), width: 2, points: { show: false } } },
    ],
    amounts: String,
    draw: (plot) => drawFailures(plot, view.summary.failures),
  };
  models.set(view, model);
  return model;
}

function drawFailures({ ctx, bbox, valToPos }, failures) {
  ctx.save();
  ctx.fillStyle = colour("--red");
  for (const { at } of failures) ctx.fillRect(Math.round(valToPos(at, "x", true)) - devicePixelRatio, bbox.top, 2 * devicePixelRatio, bbox.height);
  ctx.restore();
}

const load = new TimeChart({
  label: "Agents that waited for you and that worked, the table has the times of each session",
  hint: "Agents that waited for you, agents that worked, failures. Drag to zoom.",
  height: HEIGHT,
  tell: (part) => {
    const { since, step } = load.model;
    const { view } = load.model;
    const failed = view.summary.failures.filter(({ at }) => at >= since + part * step && at < since + (part + 1) * step);
    return [
      ["", clock(since + part * step)],
      ["yellow", `${view.waiting[part]} waited for you`],
      ["green", `${view.working[part]} worked`],
      ...failed.map(({ label }) => ["red", `${label} failed`]),
    ];
  },
});

// The lanes

const canvas = new LaneCanvas(isTouch.matches ? 44 : 24);
const tip = new Tip();
const select = document.createElement("div");
select.className = "lane-select";
select.hidden = true;

const nameOf = (item) => `${item.mark ? item.kind : item.status} ${item.at}`;

function pickedItem(view) {
  const lane = view.lanes[picked.lane];
  const item = lane && picked.name ? canvas.items(lane).find((one) => nameOf(one) === picked.name) : undefined;
  return item === undefined ? null : { lane: picked.lane, item };
}

function wordsOf(view, lane, item) {
  const { label } = view.lanes[lane];
  if (item.mark) return `${label}: ${item.kind} at ${clock(item.at, true)}${item.text ? `: ${item.text}` : ""}`;
  const time = item.end >= view.until ? `${clock(item.at, true)} to now` : timeWords(item.at, item.end, true);
  return `${label}: ${view.words[item.status]} for ${span(item.end - item.at)}, ${time}${item.text ? `: ${item.text}` : ""}`;
}

function pickedWords(view) {
  const found = pickedItem(view);
  return found === null ? null : wordsOf(view, found.lane, found.item);
}

function drawLanes() {
  if (shownView === null || !canvas.element.isConnected) return;
  canvas.draw(shownView, load.plot?.axes[0]._splits ?? [], pickedItem(shownView));
  if (drawnView !== shownView && performance.getEntriesByName("sm timeline read").length) {
    performance.measure("sm timeline drawn", "sm timeline read");
    performance.clearMarks("sm timeline read");
  }
  drawnView = shownView;
}

new ResizeObserver(drawLanes).observe(canvas.element);

function pick(found) {
  const name = found?.item ? nameOf(found.item) : "";
  if (picked.name === name && picked.lane === (found?.lane ?? picked.lane)) return;
  Object.assign(picked, { lane: found?.lane ?? picked.lane, name });
  ui.drawNow();
}

/** The events page at the event of a mark, or at the beginning of a span. */
function openItem({ lane, item }) {
  go(item.seq ? `#/events/${item.seq}` : `#/events/@${item.at}/${shownView.lanes[lane].session}`);
}

const hold = { from: null };

function placeOf(event) {
  const box = canvas.element.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

canvas.element.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  hold.from = placeOf(event)[0];
  canvas.element.setPointerCapture(event.pointerId);
});
canvas.element.addEventListener("pointermove", (event) => {
  const [x, y] = placeOf(event);
  if (hold.from !== null && Math.abs(x - hold.from) >= DRAG_PX) {
    select.hidden = false;
    select.style.left = `${Math.max(0, Math.min(x, hold.from))}px`;
    select.style.width = `${Math.abs(x - hold.from)}px`;
    tip.hide();
    return;
  }
  const found = canvas.find(x, y);
  if (found?.item) tip.show([["", wordsOf(shownView, found.lane, found.item)]], x, y + 14);
  else tip.hide();
  canvas.element.classList.toggle("over-item", Boolean(found?.item));
  pick(found?.item ? found : null);
});
canvas.element.addEventListener("pointerleave", () => tip.hide());
canvas.element.addEventListener("pointercancel", () => {
  hold.from = null;
  select.hidden = true;
});
canvas.element.addEventListener("pointerup", (event) => {
  const [x, y] = placeOf(event);
  const from = hold.from;
  hold.from = null;
  select.hidden = true;
  if (from === null) return;
  if (Math.abs(x - from) >= DRAG_PX) {
    tip.hide();
    zoomTo(canvas.at(Math.min(x, from)), canvas.at(Math.max(x, from)));
    return;
  }
  const found = canvas.find(x, y);
  if (found?.item) openItem(found);
});

function laneKeys(event) {
  const [steps, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
  if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
  const view = shownView;
  const now = pickedItem(view);
  if (event.key === "Enter" && now !== null) openItem(now);
  else if (steps || down) {
    const lane = Math.min(Math.max(0, picked.lane + down), view.lanes.length - 1);
    const items = canvas.items(view.lanes[lane]);
    const at = now === null ? Infinity : now.item.at;
    const place = lane === picked.lane && now !== null ? items.findIndex((one) => nameOf(one) === picked.name) + steps
      : items.findLastIndex((one) => one.at <= at);
    pick({ lane, item: items[Math.min(Math.max(0, place), items.length - 1)] });
    const name = document.querySelectorAll(".lane-names li")[lane];
    if (name) reveal(name);
  } else if (!zoomKey(event.key, now?.item.at ?? null)) return;
  event.preventDefault();
  event.stopPropagation();
}

// The words beside the picture

const KEYS = [["waiting_input", "waits for you"], ["running", "works"], ["idle", "idle"], ["completed", "ended"]];

const legend = (view) => html`<ul class="legend">${KEYS.map(([name, title]) => html`<li><span class="lane-key key-${name}"></span> ${title}</li>`)}
  <li><span class="lane-key key-failed">✗</span> failed</li>
  ${Object.entries(view.signs).filter(([kind]) => !view.failed.includes(kind)).map(([kind, sign]) => html`<li>${sign} ${kind}</li>`)}</ul>`;

/** The times of each session: the timeline for those who cannot see it. */
function table(view) {
  const count = (lane, chosen) => lane.marks.filter(([kind]) => chosen(kind)).length;
  const time = (lane, word) => (lane.totals[word] === undefined ? "-" : span(lane.totals[word]));
  return html`<details class="times" ?open=${opened.table} @toggle=${(event) => {
    opened.table = event.target.open;
    ui.draw();
  }}><summary>Table of the sessions</summary>${opened.table ? html`<div class="scroll-x"><table>
    <thead><tr><th scope="col">Session</th><th scope="col">Waited</th><th scope="col">Worked</th><th scope="col">Idle</th><th scope="col">Requests</th><th scope="col">Messages</th><th scope="col">Failures</th></tr></thead>
    <tbody>${view.lanes.map((lane) => html`<tr><th scope="row"><a href=${sessionPath(lane.session, "events")}>${shown(lane.label, 60)}</a></th>
      <td>${time(lane, "waiting")}</td><td>${time(lane, "running")}</td><td>${time(lane, "idle")}</td>
      <td>${count(lane, (kind) => kind === "request")}</td><td>${count(lane, (kind) => kind === "message")}</td><td class=${count(lane, (kind) => view.failed.includes(kind)) ? "bad" : ""}>${count(lane, (kind) => view.failed.includes(kind))}</td></tr>`)}</tbody></table></div>` : nothing}</details>`;
}
