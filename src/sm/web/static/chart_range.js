// The time that charts show: a range that ends now, or what somebody has zoomed to; and the frame of their pages.

import { html, nothing } from "./vendor/lit/lit.js";
import { leftS } from "./left.js";
import { nowS, state } from "./state.js";
import { ui } from "./ui.js";
import { clock } from "./words.js";

const KEPT = "sm.charts";
const HOUR_S = 3600;
const AWAY_S = 12 * HOUR_S;
const LEAST_S = 120;
const AGAIN_MS = [5000, 60_000];
const LENGTHS = { "1h": HOUR_S, "12h": AWAY_S, "24h": 24 * HOUR_S, "7d": 7 * 24 * HOUR_S, left: null };
const TITLES = { "1h": "1 h", "12h": "12 h", "24h": "24 h", "7d": "7 d" };

function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

const DEFAULTS = { range: "24h", by: "tree", unit: "cost" };

/** What the person has chosen for all charts. `zooms`: the times [since, until], the last one is shown. */
export const chosen = { ...DEFAULTS, ...kept(), zooms: [] };
let isDefault = !("range" in kept());
if (!(chosen.range in LENGTHS)) chosen.range = DEFAULTS.range;
if (chosen.range === "left" && leftS() === null) chosen.range = "12h"; // as `sm digest` does without a time

export function choose(name, value) {
  chosen[name] = value;
  if (name === "range") {
    chosen.zooms = [];
    isDefault = false;
  }
  const { range, by, unit } = chosen;
  localStorage.setItem(KEPT, JSON.stringify(isDefault ? { by, unit } : { range, by, unit }));
  ui.drawNow();
}

/** The shown time in seconds since the epoch. */
export function period() {
  const zoom = chosen.zooms.at(-1);
  if (zoom) return { since: zoom[0], until: zoom[1] };
  const until = nowS();
  const length = LENGTHS[chosen.range];
  return { since: length === null ? (leftS() ?? until - AWAY_S) : until - length, until };
}

export function zoomTo(since, until) {
  const now = nowS();
  const middle = (since + until) / 2;
  const half = Math.max(LEAST_S, until - since) / 2;
  const to = Math.min(now, middle + half);
  chosen.zooms.push([Math.min(middle - half, to - LEAST_S), to]);
  ui.drawNow();
}

export function zoomBack() {
  chosen.zooms.pop();
  ui.drawNow();
}

/** Show the half of the time around a time, by default its middle. */
export function zoomIn(at = null) {
  const { since, until } = period();
  const quarter = (until - since) / 4;
  const middle = at ?? (since + until) / 2;
  zoomTo(middle - quarter, middle + quarter);
}

const dayOf = (seconds) => new Date(seconds * 1000).toDateString();

/** A time of the day with its date, also if that is today. */
function dated(at, seconds) {
  const day = new Date(at * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())} ${timeOf(at, seconds)}`;
}

const timeOf = (at, seconds) => clock(at, seconds).slice(seconds ? -8 : -5);

/** A time from a beginning to an end, both with their dates if they are on different days. */
export function timeWords(since, until, seconds = false) {
  if (dayOf(since) === dayOf(until)) return `${clock(since, seconds)} to ${timeOf(until, seconds)}`;
  return `${dated(since, seconds)} to ${dated(until, seconds)}`;
}

export const iso = (seconds) => new Date(seconds * 1000).toISOString();

const sources = new Map(); // name -> {key, data, error, at, frame, busy}

/** What `read(since, until)` has answered for a key and the shown time. The earlier answer stays until a new one comes. */
export function loaded(name, key, read) {
  const entry = sources.get(name) ?? { key: "", data: null, error: "", at: 0, frame: -1, busy: "" };
  sources.set(name, entry);
  const zoom = chosen.zooms.at(-1);
  const { since, until } = period();
  const wanted = `${key} ${chosen.range} ${zoom ?? ""} ${state.workspace}`;
  const rest = Math.min(Math.max(AGAIN_MS[0], until - since), AGAIN_MS[1]);
  const due = !zoom && entry.frame !== state.frame && performance.now() - entry.at >= rest;
  if ((entry.key === wanted && !due && !entry.error) || (entry.error && performance.now() - entry.at < AGAIN_MS[0] && entry.key === wanted)) return entry;
  if (entry.busy === wanted || document.hidden || state.phase !== "live") return entry;
  Object.assign(entry, { busy: wanted, frame: state.frame });
  read(iso(since), zoom ? iso(until) : null)
    .then((data) => entry.busy === wanted && Object.assign(entry, { data, error: "", key: wanted }))
    .catch((error) => entry.busy === wanted && Object.assign(entry, { error: error.message, key: wanted }))
    .finally(() => {
      if (entry.busy === wanted) Object.assign(entry, { busy: "", at: performance.now() });
      ui.draw();
    });
  return entry;
}

/** Show a shorter time if nobody has chosen a range and all began in it; true if another answer is to come. */
export function suitRange(name, first) {
  if (!isDefault || chosen.zooms.length || chosen.range !== DEFAULTS.range) return false;
  const range = ["1h", "12h"].find((shorter) => nowS() - first <= LENGTHS[shorter]);
  if (range === undefined) return false;
  chosen.range = range;
  sources.get(name).data = null;
  return true;
}

/** The frame of a page of charts: its title, the choice of the time, and its own choices. */
export function chartPage(title, choices, content) {
  const left = leftS();
  const titles = left === null ? TITLES : { ...TITLES, left: html`Since I left<span class="hint"> ${clock(left)}</span>` };
  const zoom = chosen.zooms.at(-1);
  return html`<section class="page charts" aria-labelledby="page-title">
    <header class="page-head"><a class="act back" href="#/" aria-label="Back to the list">←</a><h2 id="page-title" tabindex="-1">${title}</h2>
    <div class="chart-tools">
      <div class="segments" role="group" aria-label="Time">${Object.keys(titles).map((name) => html`<button class="act small" data-range=${name}
        aria-pressed=${!zoom && chosen.range === name}
        @click=${() => choose("range", name)}>${titles[name]}</button>`)}</div>
      ${choices}
      <div class="segments" role="group" aria-label="Zoom"><button class="act small" data-zoom="in" @click=${() => zoomIn()}>+ Zoom in</button>
        ${zoom ? html`<button class="act small" data-zoom="back" @click=${zoomBack}>− Back</button>` : nothing}</div>
      ${zoom ? html`<span class="zoomed">${timeWords(...zoom)}</span>` : nothing}</div></header>
    <div class="panel" tabindex="0" role="region" aria-label="${title} as charts and tables">${content}</div></section>`;
}

/** A choice of one of some values, [[value, title]]. */
export const choiceOf = (label, name, options) => html`<label>${label} <select data-choice=${name} @change=${(event) => choose(name, event.target.value)}>${options.map(([value, title]) =>
  html`<option value=${value} ?selected=${chosen[name] === value}>${title}</option>`)}</select></label>`;
