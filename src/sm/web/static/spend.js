// What agents have used over time, in groups: a chart of stacked bars, and the tables of the same numbers.

import { html, nothing } from "./vendor/lit/lit.js";
import { get } from "./api.js";
import { colour, TimeChart, uPlot } from "./chart.js";
import { chartPage, choiceOf, chosen, loaded, suitRange, timeWords } from "./chart_range.js";
import { rowOf, state } from "./state.js";
import { isId, sessionPath } from "./ui.js";
import { clock, dollars, shown, tokens } from "./words.js";

const HEIGHT = 300;
const AXIS_PX = 64;
const PARTS_PX = 9; // a bar of this width with its gap can still be pointed at
const GROUPINGS = [["tree", "tree"], ["session", "session"], ["model", "model"], ["type", "type"], ["account", "account"]];
const TOLD_MAX = 8;
const HINT = matchMedia("(pointer: coarse)").matches ? "Tap a bar for its values." : "Point at a bar for its values. Drag to zoom; keys: ← → values, + zoom, − back.";
const SESSIONS_MAX = 50;
const COUNTS = Array.from({ length: 12 }, (_, zeros) => [1, 2, 5].map((digit) => digit * 10 ** zeros)).flat(); // whole tokens
// The names of colours in charts.css; the last one is of the rest.
const COLOURS = ["accent", "yellow", "green", "violet", "cyan", "rose"];
const REST = "soft";

const models = new WeakMap(); // an answer -> the chart of it, by unit
const opened = { times: false };

const stepWords = (step) => step < 3600 ? `${step / 60} min` : step < 86400 ? `${step / 3600} h` : `${step / 86400} d`;
const partsWanted = () => Math.min(400, Math.max(20, Math.round((Math.min(innerWidth, 1400) - AXIS_PX) / PARTS_PX)));

export function page() {
  const { by, unit } = chosen;
  const { workspace } = state;
  const read = (since, until) => get("/v1/usage/chart", { by, since, until, parts: partsWanted(), groups: by === "session" ? SESSIONS_MAX : null, workspace: workspace || null });
  let { data, error } = loaded("spend", by, read);
  const first = firstUse(data);
  if (first !== null && suitRange("spend", first)) ({ data, error } = loaded("spend", by, read));
  const choices = html`${choiceOf("By", "by", GROUPINGS)} ${choiceOf("In", "unit", [["cost", "$"], ["tokens", "tokens"]])}`;
  return chartPage("Spend", choices, html`${error ? html`<p class="problem">${error}</p>` : nothing}
    ${data === null ? (error ? nothing : html`<p class="empty">Loading.</p>`) : spend(data, unit)}`);
}

/** The time of the first usage in seconds since the epoch, or null without any. */
function firstUse(found) {
  const part = found?.total.tokens_used.findIndex((used, place) => used || found.total.costs_usd[place]) ?? -1;
  return part < 0 ? null : Date.parse(found.since) / 1000 + part * found.step_s;
}

function spend(found, unit) {
  if (!found.counted) return html`<p class="empty">The counting of tokens is off in the configuration.</p>`;
  const isEmpty = found.groups.length === 0;
  const none = html`<p class="empty">No usage in this time. An agent has usage after its first answer; plain commands report none.</p>`;
  if (isEmpty && chart.plot === null) return none;
  const model = modelOf(found, unit);
  chart.show(model);
  if (isEmpty) return html`${none}${chart.element}`; // a zoom into a time without usage leads back
  return html`<p class="headline"><b>${amount(found.total, "cost")}</b> and <b>${amount(found.total, "tokens")}</b> tokens,
      ${timeWords(Date.parse(found.since) / 1000, Date.parse(found.until) / 1000)}</p>
    <h3>${model.isCost ? "Cost, $" : "Tokens (input and output)"} per ${stepWords(found.step_s)}</h3>
    ${chart.element}
    <div class="chart-tables"><div class="scroll-x">${groupTable(found)}</div>${timeTable(found)}</div>`;
}

const value = (group, isCost) => isCost ? (group.cost_usd ?? 0) : group.tokens.input + group.tokens.output;
const amountOf = (isCost, number) => (isCost ? dollars(number) : tokens(number));
const nameOf = (group) => shown(group.label, 60);
const colourOf = (group, place) => (group.merged > 1 ? REST : (COLOURS[place] ?? REST));

/** The sum of a group with its exact value; `+` says that some of it is unknown. */
function amount(group, unit) {
  const isCost = unit === "cost";
  if (isCost && group.cost_usd === null) return "-";
  const more = (isCost ? group.cost_partial : group.tokens_partial) ? "+" : "";
  const exact = value(group, isCost);
  return html`<data value=${exact}>${amountOf(isCost, exact)}${more}</data>`;
}

/** The stacked bars of an answer. Without any price, tokens stand in place of the cost. */
function modelOf(found, unit) {
  const isCost = unit === "cost" && found.total.cost_usd !== null;
  const kept = models.get(found) ?? new Map();
  models.set(found, kept);
  if (kept.has(isCost)) return kept.get(isCost);
  const valuesOf = (group) => (isCost ? group.costs_usd : group.tokens_used);
  const parts = found.total.tokens_used.length;
  const since = Date.parse(found.since) / 1000;
  const times = Array.from({ length: parts }, (_, part) => since + part * found.step_s);
  // The largest group is at the bottom. A bar reaches from 0 to the sum so far, so those of the highest sums come first.
  const sums = [];
  found.groups.forEach((group, place) => {
    const below = sums[place - 1];
    sums.push(valuesOf(group).map((number, part) => number + (below?.[part] ?? 0)));
  });
  if (sums.length === 0) sums.push(times.map(() => 0)); // the axes stay
  // Those without a colour of their own are one bar: its top is the sum of all.
  sums.splice(COLOURS.length, Math.max(0, sums.length - COLOURS.length - 1));
  const bars = uPlot.paths.bars({ size: [0.86, 48], align: 1 });
  const series = sums.map((_, place) => {
    const name = found.groups.length ? colourOf(found.groups[place], place) : REST;
    const fill = () => colour(`--${name}`);
    return { name: `${place} ${name} ${isCost}`, options: { paths: bars, fill, stroke: fill, width: 0, points: { show: false } } };
  });
  const top = Math.max(...valuesOf(found.total), isCost ? 0.01 : 1) * 1.08;
  const model = {
    isCost, found, parts, top,
    since,
    until: since + parts * found.step_s,
    step: found.step_s,
    left: AXIS_PX,
    incrs: isCost ? undefined : COUNTS,
    data: [times, ...sums.reverse()],
    series: series.reverse(),
    amounts: (number) => (isCost ? axisDollars(number, top) : tokens(Math.round(number))),
  };
  kept.set(isCost, model);
  return model;
}

const axisDollars = (number, top) => `$${number.toFixed(top > 20 ? 0 : top > 0.5 ? 2 : 3)}`;

const chart = new TimeChart({
  label: "Usage over time, the tables have the same numbers",
  hint: HINT,
  height: HEIGHT,
  tell: (part) => {
    const { found, since, step, isCost } = chart.model;
    const from = since + part * step;
    const valueIn = (group) => (isCost ? group.costs_usd[part] : group.tokens_used[part]);
    const used = found.groups.map((group, place) => [colourOf(group, place), group]).filter(([, group]) => valueIn(group) > 0);
    return [
      ["", `${timeWords(from, from + step)}: ${amountOf(isCost, valueIn(found.total))}`],
      ...used.slice(0, TOLD_MAX).map(([name, group]) => [name, `${nameOf(group)} ${amountOf(isCost, valueIn(group))}`]),
      ...(used.length > TOLD_MAX ? [["", `and ${used.length - TOLD_MAX} more`]] : []),
    ];
  },
});

/** The tree of a session that has others above it. */
function treeOf(id) {
  let top = rowOf(id);
  while (top?.parent && rowOf(top.parent)) top = rowOf(top.parent);
  return top === undefined || top.id === id ? nothing : html` <span class="hint">in ${top.label}</span>`;
}

function groupTable(found) {
  const all = value(found.total, chart.model.isCost) || 1;
  const share = (group) => Math.round((100 * value(group, chart.model.isCost)) / all);
  const isSessions = ["tree", "session"].includes(found.by);
  const label = (group) => isSessions && group.key !== null && isId(group.key)
    ? html`<span><a href=${sessionPath(group.key)}>${nameOf(group)}</a>${found.by === "session" ? treeOf(group.key) : nothing}</span>` : nameOf(group);
  return html`<table class="groups"><caption>By ${found.by}, the largest first${found.prices_as_of ? `; list prices of ${found.prices_as_of}` : ""}</caption>
    <thead><tr><th scope="col">${found.by[0].toUpperCase()}${found.by.slice(1)}</th><th scope="col" class="number">Cost</th><th scope="col" class="number">Tokens</th><th scope="col" class="number">Share</th></tr></thead>
    <tbody>${found.groups.map((group, place) => html`<tr><th scope="row"><span class="group"><span class="swatch swatch-${colourOf(group, place)}"></span>${label(group)}</span></th>
      <td class="number">${amount(group, "cost")}</td><td class="number">${amount(group, "tokens")}</td><td class="number">${share(group)}%</td></tr>`)}</tbody>
    <tfoot><tr><th scope="row">Total</th><td class="number">${amount(found.total, "cost")}</td><td class="number">${amount(found.total, "tokens")}</td><td class="number"></td></tr></tfoot></table>`;
}

/** The sums of each part of the time, the newest first: the chart for those who cannot see it. */
function timeTable(found) {
  const since = Date.parse(found.since) / 1000;
  const { total } = found;
  const parts = total.tokens_used.map((used, part) => ({ used, part, cost: total.costs_usd[part] })).filter(({ used, cost }) => used || cost);
  const cost = (number) => (total.cost_usd === null ? "-" : html`<data value=${number}>${dollars(number)}</data>`);
  return html`<details class="times" @toggle=${(event) => (opened.times = event.target.open)} ?open=${opened.times}><summary>Table by time (${parts.length})</summary>
    <table><thead><tr><th scope="col">From</th><th scope="col" class="number">Cost</th><th scope="col" class="number">Tokens</th></tr></thead>
    <tbody>${parts.reverse().map(({ used, part, cost: spent }) => html`<tr><th scope="row">${clock(since + part * found.step_s)}</th>
      <td class="number">${cost(spent)}</td><td class="number"><data value=${used}>${tokens(used)}</data></td></tr>`)}</tbody></table></details>`;
}
