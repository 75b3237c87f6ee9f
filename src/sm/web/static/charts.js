// Spend and timeline: pictures in SVG, each with a table of the same numbers.

import { html, nothing, svg } from "./vendor/lit/lit.js";
import { get } from "./api.js";
import { lines, nowS, rowOf, state } from "./state.js";
import { go, sessionPath, ui } from "./ui.js";
import { clock, dollars, shown, span, tokens } from "./words.js";

const AGAIN_MS = 5000;
const WIDTH = 800;
const cache = new Map(); // key -> {data, error, at, busy}

/** The data of a key; loaded again if it is older than five seconds while something changes. */
function data(key, read) {
  const entry = cache.get(key) ?? { data: null, error: "", at: -AGAIN_MS, frame: -1, busy: false };
  cache.set(key, entry);
  const due = performance.now() - entry.at >= AGAIN_MS && entry.frame !== state.frame;
  if (!entry.busy && due && !document.hidden && state.phase === "live") {
    Object.assign(entry, { busy: true, at: performance.now(), frame: state.frame });
    read()
      .then((found) => Object.assign(entry, { data: found, error: "" }))
      .catch((error) => (entry.error = error.message))
      .finally(() => {
        entry.busy = false;
        ui.draw();
      });
  }
  return entry;
}

const settings = { by: "hour", hours: 1, told: "" };

function page(title, controls, content) {
  return html`<section class="page" aria-labelledby="page-title">
    <header class="page-head"><a class="act back" href="#/" aria-label="Back to the list">←</a><h2 id="page-title" tabindex="-1">${title}</h2>${controls}</header>
    <div class="panel" tabindex="0" role="region" aria-label="${title} in pictures and tables">${content}</div></section>`;
}

function choice(label, name, options) {
  const change = (event) => {
    settings[name] = name === "hours" ? Number(event.target.value) : event.target.value;
    ui.draw();
  };
  return html`<label>${label} <select @change=${change}>${options.map(([value, title]) =>
    html`<option value=${value} ?selected=${String(settings[name]) === String(value)}>${title}</option>`)}</select></label>`;
}

const tell = (words) => {
  if (settings.told === words) return;
  settings.told = words;
  ui.draw();
};

// Spend

export function spendPage() {
  const { by } = settings;
  const { workspace } = state;
  const { data: series, error } = data(`usage ${by} ${workspace}`, () => get("/v1/usage", { by, limit: 96, workspace: workspace || null }));
  const controls = choice("By", "by", [["minute", "minute"], ["hour", "hour"], ["day", "day"]]);
  return page("Spend", controls, html`${error ? html`<p class="problem">${error}</p>` : nothing}
    ${series === null ? html`<p class="empty">Loading.</p>` : usage(series)} ${subtrees()}`);
}

function usage({ buckets, counted }) {
  if (!counted) return html`<p class="empty">The counting of tokens is off in the configuration.</p>`;
  if (buckets.length === 0) return html`<p class="empty">No usage yet.</p>`;
  const known = buckets.some((bucket) => bucket.cost_usd != null);
  const value = (bucket) => (known ? (bucket.cost_usd ?? 0) : bucket.tokens.input + bucket.tokens.output);
  const words = (bucket) => `${clock(bucket.at)}: ${dollars(bucket.cost_usd)}, ${tokens(bucket.tokens)} tokens`;
  const most = Math.max(...buckets.map(value), 1e-9);
  const width = WIDTH / buckets.length;
  const models = new Map();
  for (const bucket of buckets) {
    for (const { model, cost_usd: cost, tokens: used } of bucket.models) {
      const sum = models.get(model) ?? { cost: 0, tokens: 0 };
      sum.cost = cost == null || sum.cost == null ? null : sum.cost + cost;
      sum.tokens += used.input + used.output;
      models.set(model, sum);
    }
  }
  return html`<h3>${known ? "Cost" : "Tokens"} over time</h3>
    <figure><svg class="chart" viewBox="0 0 ${WIDTH} 160" preserveAspectRatio="none" role="img" aria-label="${known ? "Cost" : "Tokens"} over time, the table has the numbers">
      ${buckets.map((bucket, place) => {
        const height = (150 * value(bucket)) / most;
        return svg`<rect class="chart-bar" x=${place * width + 1} y=${160 - height} width=${Math.max(1, Math.min(60, width - 2))} height=${height} @pointerenter=${() => tell(words(bucket))}></rect>`;
      })}</svg><figcaption>${settings.told || `at most ${known ? dollars(most) : tokens(most)} in one ${settings.by}`}</figcaption></figure>
    <details><summary>Table</summary><table><thead><tr><th scope="col">From</th><th scope="col">Cost</th><th scope="col">Tokens</th></tr></thead>
      <tbody>${[...buckets].reverse().map((bucket) => html`<tr><th scope="row">${clock(bucket.at)}</th><td>${dollars(bucket.cost_usd)}</td><td>${tokens(bucket.tokens)}</td></tr>`)}</tbody></table></details>
    <h3>By model</h3><table><thead><tr><th scope="col">Model</th><th scope="col">Cost</th><th scope="col">Tokens</th></tr></thead>
      <tbody>${[...models].map(([model, sum]) => html`<tr><th scope="row">${shown(model, 60)}</th><td>${dollars(sum.cost)}</td><td>${tokens(sum.tokens)}</td></tr>`)}</tbody></table>`;
}

const amount = (text) => Number(String(text ?? "").replace(/[^0-9.]/g, "")) || 0;

/** Each subtree with the share of its cost: the bars are nested as the tree. */
function subtrees() {
  const rows = lines().map(([id, , , depth]) => [rowOf(id), depth]).filter(([row]) => row !== undefined);
  const of = (row) => amount(row.tree_cost || row.cost);
  const most = Math.max(...rows.map(([row]) => of(row)), 0);
  if (most === 0) return nothing;
  return html`<h3>By subtree</h3><table class="shares"><thead><tr><th scope="col">Session</th><th scope="col">With descendants</th><th scope="col">Own</th><th scope="col"><span class="unseen">Share</span></th></tr></thead>
    <tbody>${rows.filter(([row]) => of(row) > 0).slice(0, 200).map(([row, depth]) => html`<tr><th scope="row" .style=${`padding-inline-start:${Math.min(depth, 8)}rem`}><a href=${sessionPath(row.id)}>${row.label}</a></th>
      <td>${row.tree_cost || row.cost}</td><td>${row.cost}</td><td><svg class="share" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="chart-bar" width=${(100 * of(row)) / most} height="10"></rect></svg></td></tr>`)}</tbody></table>`;
}

// Timeline

const LANE = 22;
const NAMES = 180;

export function timelinePage() {
  const { hours } = settings;
  const { workspace } = state;
  const read = async () => {
    const since = new Date((nowS() - hours * 3600) * 1000).toISOString();
    const [lanes, { events }] = await Promise.all([
      get("/v1/timeline", { since, workspace: workspace || null }),
      get("/v1/events", { limit: 500, workspace: workspace || null }),
    ]);
    return { ...lanes, marks: events.filter((event) => event.type in MARKS) };
  };
  const { data: found, error } = data(`timeline ${hours} ${workspace}`, read);
  const controls = choice("Last", "hours", [[0.25, "15 min"], [1, "hour"], [6, "6 hours"], [24, "day"]]);
  return page("Timeline", controls, html`${error ? html`<p class="problem">${error}</p>` : nothing}${found === null ? html`<p class="empty">Loading.</p>` : lanesView(found)}`);
}

const MARKS = { request: "!", message: "✉", checkpoint: "◆" };
const secondsOf = (at) => Date.parse(at) / 1000;

/** The lanes with each session below its parent, as [lane, depth]. */
function nested(lanes) {
  const ids = new Set(lanes.map((lane) => lane.session_id));
  const below = Map.groupBy ? Map.groupBy(lanes, (lane) => (ids.has(lane.parent_session_id) ? lane.parent_session_id : null)) : new Map([[null, lanes]]);
  const order = [];
  const seen = new Set();
  const visit = (lane, depth) => {
    if (seen.has(lane.session_id)) return;
    seen.add(lane.session_id);
    order.push([lane, depth]);
    for (const child of below.get(lane.session_id) ?? []) visit(child, depth + 1);
  };
  for (const lane of below.get(null) ?? []) visit(lane, 0);
  return order;
}

function lanesView({ since, until, sessions, marks }) {
  if (sessions.length === 0) return html`<p class="empty">No session in this time.</p>`;
  const to = secondsOf(until);
  const begin = Math.min(...sessions.flatMap((lane) => lane.spans.map((part) => secondsOf(part.start))), to);
  const from = Math.max(secondsOf(since), begin);
  const x = (at) => NAMES + ((Math.min(Math.max(at, from), to) - from) / Math.max(1, to - from)) * (WIDTH - NAMES);
  const lanes = nested(sessions).slice(0, 300);
  const place = new Map(lanes.map(([lane], index) => [lane.session_id, index]));
  const middle = (index) => index * LANE + LANE / 2;
  const words = (lane, part) => {
    const end = part.end == null ? to : secondsOf(part.end);
    return `${shown(lane.label, 60)}: ${part.status} for ${span(end - secondsOf(part.start))} from ${clock(part.start, true)}${part.reason ? ` (${shown(part.reason, 120)})` : ""}`;
  };
  return html`<figure class="scroll" tabindex="0"><svg class="lanes" viewBox="0 0 ${WIDTH} ${lanes.length * LANE + 20}" role="img" aria-label="Timeline from ${clock(from)} to ${clock(until)}, the table has the same">
      ${lanes.map(([lane, depth], index) => svg`<text x=${4 + Math.min(depth, 6) * 10} y=${middle(index) + 4} class="lane-name" @click=${() => go(sessionPath(lane.session_id))}>${shown(lane.label, 24)}</text>
        ${place.has(lane.parent_session_id) ? svg`<path class="spawned" d="M${x(secondsOf(lane.created_at))} ${middle(place.get(lane.parent_session_id))}V${middle(index)}"></path>` : nothing}
        ${lane.spans.map((part) => svg`<rect class="span f-${part.status}" x=${x(secondsOf(part.start))} y=${index * LANE + 4} height=${LANE - 8}
          width=${Math.max(1.5, x(part.end == null ? to : secondsOf(part.end)) - x(secondsOf(part.start)))} @pointerenter=${() => tell(words(lane, part))}></rect>`)}`)}
      ${marks.filter((mark) => place.has(mark.session_id) && secondsOf(mark.timestamp) >= from).map((mark) => svg`<text class="mark" x=${x(secondsOf(mark.timestamp))} y=${middle(place.get(mark.session_id)) + 4}
        @pointerenter=${() => tell(`${clock(mark.timestamp, true)} ${mark.type}: ${shown(mark.message, 160)}`)}>${MARKS[mark.type]}</text>`)}
      <text class="axis" x=${NAMES} y=${lanes.length * LANE + 15}>${clock(from)}</text><text class="axis end" x=${WIDTH} y=${lanes.length * LANE + 15}>${clock(until)}</text>
    </svg><figcaption>${settings.told || "Point at a span, or open the table"}</figcaption></figure>
    <ul class="legend">${["running", "waiting_input", "idle", "completed", "error"].map((name) => html`<li><svg class="key" viewBox="0 0 12 12" aria-hidden="true"><rect class="span f-${name}" width="12" height="12"></rect></svg> ${name === "waiting_input" ? "waiting" : name}</li>`)}
      ${Object.entries(MARKS).map(([name, sign]) => html`<li>${sign} ${name}</li>`)}</ul>
    <details><summary>Table</summary><table><thead><tr><th scope="col">Session</th><th scope="col">Status</th><th scope="col">From</th><th scope="col">For</th><th scope="col">Reason</th></tr></thead>
      <tbody>${lanes.flatMap(([lane]) => lane.spans.map((part) => html`<tr><th scope="row">${shown(lane.label, 60)}</th><td>${part.status}</td><td>${clock(part.start, true)}</td>
        <td>${span((part.end == null ? to : secondsOf(part.end)) - secondsOf(part.start))}</td><td>${shown(part.reason ?? "", 200)}</td></tr>`))}</tbody></table></details>`;
}
