// The page of events of all sessions, by type.

import { html, nothing } from "./vendor/lit/lit.js";
import { get } from "./api.js";
import { eventList } from "./session.js";
import { state } from "./state.js";
import { ui } from "./ui.js";

const AGAIN_MS = 2000;
const TYPES = ["", "spawned", "waiting_input", "completed", "error", "killed", "checkpoint", "note", "message", "request", "warning"];
const feed = { type: "", workspace: null, events: null, error: "", at: 0, frame: -1, busy: false };
let again = 0;

function load() {
  if (feed.busy || document.hidden || state.phase !== "live" || feed.frame === state.frame) return;
  const wait = feed.at + AGAIN_MS - performance.now();
  if (wait > 0) {
    clearTimeout(again);
    again = setTimeout(ui.draw, wait);
    return;
  }
  Object.assign(feed, { busy: true, at: performance.now(), frame: state.frame, workspace: state.workspace });
  get("/v1/events", { limit: 300, type: feed.type || null, workspace: state.workspace || null })
    .then(({ events }) => Object.assign(feed, { events, error: "" }))
    .catch((error) => Object.assign(feed, { error: error.message }))
    .finally(() => {
      feed.busy = false;
      ui.draw();
    });
}

export function eventsPage() {
  if (feed.workspace !== state.workspace) Object.assign(feed, { frame: -1, at: 0 });
  load();
  const types = [...new Set([...TYPES, ...(feed.events ?? []).map((event) => event.type), feed.type])];
  const chooseType = (event) => {
    Object.assign(feed, { type: event.target.value, frame: -1, at: 0 });
    ui.draw();
  };
  return html`<section class="page" aria-labelledby="page-title">
    <header class="page-head"><a class="act back" href="#/" aria-label="Back to the list">←</a><h2 id="page-title" tabindex="-1">Events</h2>
      <label>Type <select @change=${chooseType}>${types.map((type) => html`<option value=${type} ?selected=${type === feed.type}>${type || "all"}</option>`)}</select></label></header>
    ${feed.error ? html`<p class="problem">${feed.error}</p>` : nothing}
    <div class="panel" tabindex="0" role="region" aria-label="List of events">${feed.events === null ? html`<p class="empty">Loading.</p>` : eventList(feed.events)}</div>
  </section>`;
}
