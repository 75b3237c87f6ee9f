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

const settings = { by: "hour", hours: 1 };

/** What the pointer or the keys have chosen in the picture of a page: a part of a line, by its name. */
const picked = { line: 0, part: "" };

/** A picture whose parts give their numbers, with the pointer or the arrows. `lines`: the parts [{name, words}] of each. */
function picture(lines, hint, content) {
  const found = lines.flat().find((part) => part.name === picked.part);
  const pick = (line, place) => {
    const parts = lines[line];
    Object.assign(picked, { line, part: parts[Math.min(Math.max(0, place), parts.length - 1)]?.name ?? "" });
    ui.drawNow();
    document.querySelector(".picked")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const keys = (event) => {
    const [steps, down] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if ((!steps && !down) || lines.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const line = Math.min(Math.max(0, picked.line + down), lines.length - 1);
    const place = lines[picked.line]?.findIndex((part) => part.name === picked.part) ?? -1;
    if (place < 0) pick(Math.min(picked.line, lines.length - 1), Infinity);
    else pick(line, line === picked.line ? place + steps : lines[line].findLastIndex((part) => part.at <= found.at));
  };
  return html`<figure class="scroll" tabindex="0" aria-label=${hint} @keydown=${keys}>${content}
    <figcaption><span role="status">${found?.words ?? hint}</span></figcaption></figure>`;
}

const point = (line, name) => () => {
  if (picked.part === name) return;
  Object.assign(picked, { line, part: name });
  ui.draw();
};
const look = (name, more) => `${more}${picked.part === name ? " picked" : ""}`;

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
  if (buckets.length === 0) return html`<p class="empty">No usage yet: agents that are plain commands report no tokens.</p>`;
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
  const parts = buckets.map((bucket) => ({ name: `bucket ${bucket.at}`, at: bucket.at, words: words(bucket) }));
  const hint = `At most ${known ? dollars(most) : tokens(most)} in one ${settings.by}. Point at a bar, or use the arrows`;
  return html`<h3>${known ? "Cost" : "Tokens"} over time</h3>
    ${picture([parts], hint, html`<svg class="chart" viewBox="0 0 ${WIDTH} 160" preserveAspectRatio="none" role="img" aria-label="${known ? "Cost" : "Tokens"} over time, the table has the numbers">
      ${buckets.map((bucket, place) => {
        const height = (150 * value(bucket)) / most;
        const { name } = parts[place];
        return svg`<rect class=${look(name, "chart-bar")} x=${place * width + 1} y=${160 - height} width=${Math.max(1, Math.min(60, width - 2))} height=${height} @pointerenter=${point(0, name)}></rect>`;
      })}</svg>`)}
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

const MARKS = { request: "?", message: "✉", checkpoint: "◆" };
const OVER = ["completed", "error", "killed", "abandoned"]; // thin, as nothing happens any more
const word = (part) => (part.status === "waiting_input" ? "waiting" : part.status);
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
  const endOf = (part) => (part.end == null ? to : secondsOf(part.end));
  const spanPart = (lane, part) => ({
    name: `${lane.session_id} ${part.start}`,
    at: secondsOf(part.start),
    words: `${shown(lane.label, 60)}: ${word(part)} for ${span(endOf(part) - secondsOf(part.start))}, ${clock(part.start, true)} to ${part.end == null ? "now" : clock(part.end, true)}${part.reason ? `: ${shown(part.reason, 200)}` : ""}`,
  });
  const markPart = (lane, mark) => ({
    name: `event ${mark.seq}`,
    at: secondsOf(mark.timestamp),
    words: `${shown(lane.label, 60)}: ${mark.type} at ${clock(mark.timestamp, true)}: ${shown(mark.message, 200)}`,
  });
  const shownMarks = marks.filter((mark) => place.has(mark.session_id) && secondsOf(mark.timestamp) >= from);
  const parts = lanes.map(([lane]) => [
    ...lane.spans.map((part) => spanPart(lane, part)),
    ...shownMarks.filter((mark) => mark.session_id === lane.session_id).map((mark) => markPart(lane, mark)),
  ].sort((one, other) => one.at - other.at));
  return html`${picture(parts, "Point at a span, or use the arrows", html`<svg class="lanes" viewBox="0 0 ${WIDTH} ${lanes.length * LANE + 20}" role="img" aria-label="Timeline from ${clock(from)} to ${clock(until)}, the table has the same">
      ${lanes.map(([lane, depth], index) => svg`<text x=${4 + Math.min(depth, 6) * 10} y=${middle(index) + 4} class="lane-name" @click=${() => go(sessionPath(lane.session_id))}>${shown(lane.label, 24)}</text>
        ${place.has(lane.parent_session_id) ? svg`<path class="spawned" d="M${x(secondsOf(lane.created_at))} ${middle(place.get(lane.parent_session_id))}V${middle(index)}"></path>` : nothing}
        ${lane.spans.map((part) => {
          const { name } = spanPart(lane, part);
          const height = OVER.includes(part.status) ? 4 : LANE - 8;
          return svg`<rect class=${look(name, `span f-${part.status}`)} x=${x(secondsOf(part.start))} y=${middle(index) - height / 2} height=${height}
            width=${Math.max(1.5, x(endOf(part)) - x(secondsOf(part.start)))} @pointerenter=${point(index, name)}></rect>`;
        })}`)}
      ${shownMarks.map((mark) => {
        const index = place.get(mark.session_id);
        const { name } = markPart(lanes[index][0], mark);
        return svg`<text class=${look(name, "mark")} x=${x(secondsOf(mark.timestamp))} y=${middle(index) + 4} @pointerenter=${point(index, name)}>${MARKS[mark.type]}</text>`;
      })}
      <text class="axis" x=${NAMES} y=${lanes.length * LANE + 15}>${clock(from)}</text><text class="axis end" x=${WIDTH} y=${lanes.length * LANE + 15}>${clock(until)}</text>
    </svg>`)}
    <ul class="legend">${["running", "waiting_input", "idle", "completed", "error"].map((name) => html`<li><svg class="key" viewBox="0 0 12 12" aria-hidden="true"><rect class="span f-${name}" width="12" height="12"></rect></svg> ${word({ status: name })}</li>`)}
      ${Object.entries(MARKS).map(([name, sign]) => html`<li>${sign} ${name}</li>`)}</ul>
    <details><summary>Table</summary><table><thead><tr><th scope="col">Session</th><th scope="col">Status</th><th scope="col">From</th><th scope="col">For</th><th scope="col">Reason</th></tr></thead>
      <tbody>${lanes.flatMap(([lane]) => lane.spans.map((part) => html`<tr><th scope="row">${shown(lane.label, 60)}</th><td>${word(part)}</td><td>${clock(part.start, true)}</td>
        <td>${span(endOf(part) - secondsOf(part.start))}</td><td>${shown(part.reason ?? "", 200)}</td></tr>`))}</tbody></table></details>`;
}
