// The page of sessions that ended too long ago for the list, by page, those that ended last first.

import { html, nothing } from "./vendor/lit/lit.js";
import { page } from "./api.js";
import { nowS, state } from "./state.js";
import { sessionPath, ui } from "./ui.js";
import { clock, shown } from "./words.js";

const LIMIT = 50;
const SEARCH_MS = 300; // a search reads all of these sessions
const found = { key: "", search: "", sessions: null, next: "", left: 0, error: "" };
let timer = 0;

/** Read the page that begins at `found.next`. */
function read() {
  const { key, next } = found;
  const before = next || `${new Date(nowS() * 1000).toISOString()}_`;
  const scope = { workspace: state.workspace || null, archived: state.view.archived ? "" : null };
  page("/v1/sessions", { before, limit: LIMIT, search: found.search || null, ...scope })
    .then(({ entries, ...more }) => {
      // A page has the session that began first first.
      const ended = entries.sort((one, other) => (one.status_at < other.status_at ? 1 : -1));
      if (found.key === key && found.next === next) Object.assign(found, { sessions: [...(next ? found.sessions : []), ...ended], error: "", ...more });
    })
    .catch((error) => found.key === key && Object.assign(found, { error: error.message }))
    .finally(ui.draw);
}

/** Read the first page again when other sessions are wanted, and when their number has changed. */
function load() {
  const key = JSON.stringify([state.workspace, state.view.archived, found.search, state.earlier]);
  if (found.key === key || state.phase !== "live" || state.placed !== state.workspace) return;
  Object.assign(found, { key, next: "" });
  read();
}

function search(event) {
  const { value } = event.target;
  clearTimeout(timer);
  timer = setTimeout(() => {
    found.search = value;
    ui.draw();
  }, SEARCH_MS);
}

const item = (session) => html`<li data-session=${session.session_id}><time datetime=${session.status_at}>${clock(session.status_at)}</time>
  <a href=${sessionPath(session.session_id)}>${shown(session.label, 150)}</a> <span class="kind">${session.status}</span>
  ${session.workspace && !state.workspace ? html`<span class="tag" title="workspace">@${session.workspace}</span>` : nothing}
  <span class="words">${shown(session.completion_message ?? session.status_reason, 300)}</span></li>`;

export function earlierPage() {
  load();
  const { sessions, left, error } = found;
  return html`<section class="page" aria-labelledby="page-title">
    <header class="page-head"><a class="act back" href="#/" aria-label="Back to the list">←</a><h2 id="page-title" tabindex="-1">Ended earlier</h2>
      <input type="search" maxlength="500" placeholder="Search" .value=${found.search} aria-label="Search these sessions" autocomplete="off" spellcheck="false" @input=${search}></header>
    ${error ? html`<p class="problem">${error}</p>` : nothing}
    <div class="panel" tabindex="0" role="region" aria-label="Sessions that ended earlier">
      ${sessions === null ? html`<p class="empty">Loading.</p>` : sessions.length ? html`<ol class="feed">${sessions.map(item)}</ol>` : html`<p class="empty">No sessions.</p>`}
      ${left ? html`<button class="act" @click=${read}>Show more (${left} left)</button>` : nothing}</div>
  </section>`;
}
