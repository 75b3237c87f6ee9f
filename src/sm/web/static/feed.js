// The page of events of all sessions: the newest by type, or those around one event, to which charts lead.

import { html, nothing, ref } from "./vendor/lit/lit.js";
import { get } from "./api.js";
import { reveal } from "./reveal.js";
import { rowOf, state } from "./state.js";
import { sessionPath, ui } from "./ui.js";
import { clock, shown } from "./words.js";

const AGAIN_MS = 2000;
const LISTED = 300;
const BEFORE = 100; // events before the one of an address
const BEFORE_S = 300;
const TYPES = ["", "spawned", "waiting_input", "completed", "error", "killed", "checkpoint", "note", "message", "request", "warning"];
const feed = { type: "", key: "", events: null, error: "", at: 0, frame: -1, busy: false };
let again = 0;

/** What is asked for an address of the page. */
function query({ seq, at }) {
  const { type } = feed;
  const scope = { type: type || null, limit: LISTED, workspace: state.workspace || null };
  if (seq !== undefined) return { ...scope, type: null, workspace: null, since: Math.max(0, seq - BEFORE) };
  if (at !== undefined) return { ...scope, type: null, workspace: null, since_time: new Date((at - BEFORE_S) * 1000).toISOString() };
  return scope;
}

function load(route) {
  const asked = query(route);
  const key = JSON.stringify(asked);
  const isPlace = asked.since !== undefined || asked.since_time !== undefined;
  if (feed.key !== key) Object.assign(feed, { frame: -1, at: 0, events: null });
  if (feed.busy || document.hidden || state.phase !== "live" || feed.frame === state.frame || (isPlace && feed.events !== null)) return;
  const wait = feed.at + AGAIN_MS - performance.now();
  if (feed.at && wait > 0) {
    clearTimeout(again);
    again = setTimeout(ui.draw, wait);
    return;
  }
  Object.assign(feed, { busy: true, at: performance.now(), frame: state.frame, key });
  get("/v1/events", asked)
    .then(({ events }) => feed.key === key && Object.assign(feed, { events, error: "" }))
    .catch((error) => Object.assign(feed, { error: error.message }))
    .finally(() => {
      feed.busy = false;
      ui.draw();
    });
}

/** The event to which the address leads, or undefined. */
function placed({ seq, at, of }) {
  if (seq !== undefined) return feed.events?.find((event) => event.seq === seq);
  if (at === undefined) return undefined;
  const own = (feed.events ?? []).filter((event) => event.session_id === of);
  // The page has milliseconds, and a span begins with its event.
  return own.find((event) => Date.parse(event.timestamp) >= at * 1000 - 1) ?? own.at(-1);
}

let revealed = "";
const revealOnce = (key) => ref((element) => {
  if (element === undefined || revealed === key) return;
  revealed = key;
  queueMicrotask(() => reveal(element, true));
});

const SUBJECT = /^(?:Session|Child) (\S+?)(?= |:)(?: \(([0-9a-f]{8})\))?/;
const wordOf = (type) => (type === "waiting_input" ? "waiting" : type.replaceAll("_", " "));

/** The text of an event, which begins with its session: as a link. The type stands before it. */
function wordsOf({ session_id: id, type, message }) {
  const named = SUBJECT.exec(message ?? "");
  const name = rowOf(id)?.label ?? named?.[1];
  if (name === undefined) return shown(message, 2000);
  const rest = named === null ? ` ${message ?? ""}` : message.slice(named[0].length);
  const after = rest.slice(type.length + 1);
  const own = rest.startsWith(` ${type}`) && !/^\w/.test(after) ? after : rest;
  return html`<a class="of" href=${sessionPath(id)}>${shown(name, 150)}</a>${shown(own, 2000)}`;
}

/** The events without those that say again that a session of the list was started. */
function listed(events) {
  const spawned = new Set(events.filter(({ type }) => type === "spawned").map(({ session_id: id }) => id));
  const starts = events.filter(({ type, session_id: id }) => type === "started" && spawned.has(id));
  const first = new Map(starts.toReversed().map((event) => [event.session_id, event]));
  return events.filter((event) => first.get(event.session_id) !== event);
}

function item(event, found) {
  const isPlace = event === found;
  return html`<li data-type=${event.type} data-seq=${event.seq} class="${isPlace ? "at" : ""} ${["error", "abandoned"].includes(event.type) ? "k-error" : ""}" aria-current=${isPlace ? "true" : nothing} ${isPlace ? revealOnce(`${feed.key} ${event.seq}`) : nothing}>
    <time datetime=${event.timestamp}>${clock(event.timestamp, true)}</time> <span class="kind">${wordOf(event.type)}</span>
    <span class="words">${wordsOf(event)}</span></li>`;
}

export function eventsPage() {
  const { route } = ui;
  if (route.seq === undefined && route.at === undefined) revealed = "";
  load(route);
  const found = placed(route);
  const isPlace = route.seq !== undefined || route.at !== undefined;
  const types = [...new Set([...TYPES, ...(feed.events ?? []).map((event) => event.type), feed.type])];
  const chooseType = (event) => {
    Object.assign(feed, { type: event.target.value, frame: -1, at: 0 });
    ui.draw();
  };
  const choice = isPlace ? html`<a class="act" href="#/events">Newest events</a>`
    : html`<label>Type <select @change=${chooseType}>${types.map((type) => html`<option value=${type} ?selected=${type === feed.type}>${wordOf(type) || "all"}</option>`)}</select></label>`;
  const list = feed.events === null ? html`<p class="empty">${feed.error ? "" : "Loading."}</p>`
    : feed.events.length === 0 ? html`<p class="empty">No events.</p>`
      : html`<ol class="feed">${(isPlace ? [...feed.events] : listed(feed.events)).reverse().map((event) => item(event, found))}</ol>`;
  return html`<section class="page" aria-labelledby="page-title">
    <header class="page-head"><a class="act back" href=${isPlace ? "#/timeline" : "#/"} aria-label=${isPlace ? "Back to the timeline" : "Back to the list"}>←</a><h2 id="page-title" tabindex="-1">Events</h2>${choice}</header>
    ${feed.error ? html`<p class="problem">${feed.error}</p>` : nothing}
    ${isPlace && feed.events !== null && found === undefined ? html`<p class="problem">This event is not in the list any more.</p>` : nothing}
    <div class="panel" tabindex="0" role="region" aria-label="List of events">${list}</div>
  </section>`;
}
