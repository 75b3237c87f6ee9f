// The page of one session: its head, its tabs, and the field for a message.

import { html, nothing, render } from "./vendor/lit/lit.js";
import { changesSince, get } from "./api.js";
import { composer } from "./composer.js";
import { needBesideChanges } from "./needs.js";
import { markOld, panelOf, showPanel } from "./panels.js";
import { screen } from "./screen.js";
import { sessionHead } from "./session_head.js";
import { below, nowS, rowOf, state } from "./state.js";
import { statusClass } from "./tree.js";
import { go, isId, sessionPath, TABS, ui } from "./ui.js";
import { clock, shown, shownLines, span } from "./words.js";

const TITLES = { peek: "Terminal", actions: "Work", changes: "Changes", messages: "Messages", events: "Events", why: "Why", requests: "Requests", children: "Children" };
const AGAIN_MS = 1500;

let again = 0;

const SOURCES = {
  actions: (ref) => get(`/v1/sessions/${ref}/actions`, { lines: 200, seen: 1 }),
  messages: (ref, id) => get("/v1/messages", { session: id, limit: 100, seen: 1 }),
  events: async (ref, id) => {
    const [events, checkpoints] = await Promise.all([
      get("/v1/events", { session: id, limit: 200 }),
      get(`/v1/sessions/${ref}/checkpoints`, { limit: 50 }),
    ]);
    return { events: events.events, checkpoints };
  },
  why: (ref) => get(`/v1/sessions/${ref}/why`),
  requests: (ref, id) => get("/v1/requests", { session: id, all: "", limit: 50 }),
  children: (ref) => get(`/v1/sessions/${ref}/children`, { recursive: "", archived: "", limit: 200 }),
  output: (ref) => get(`/v1/sessions/${ref}/output`, { lines: 2000, seen: 1 }),
};

/** Load the data of the open tab if the row has changed since, at most every second and a half. */
function load(panel, kind, row) {
  const follows = kind === "messages" && (panel.data ?? []).some((message) => ["queued", "delivering"].includes(message.status));
  if (panel.busy || document.hidden || (panel.row === row && !follows && !panel.error)) return;
  const wait = panel.at + AGAIN_MS - performance.now();
  if (panel.at && wait > 0) {
    clearTimeout(again);
    again = setTimeout(ui.draw, wait);
    return;
  }
  if (state.phase !== "live") return;
  Object.assign(panel, { busy: true, at: performance.now(), row });
  SOURCES[kind](encodeURIComponent(row.id), row.id)
    .then((data) => Object.assign(panel, { data, error: "" }))
    .catch((error) => (panel.error = error.message))
    .finally(() => {
      panel.busy = false;
      ui.draw();
    });
}

export function reload() {
  markOld();
  ui.draw();
}

export function sessionPage() {
  const { session, tab } = ui.route;
  const row = rowOf(session);
  if (row === undefined) {
    screen.close();
    const problem = isId(session) ? state.details.get(session)?.problem : `no such session: ${session}`;
    return html`<section class="session" aria-label="Session"><p class="empty">
      ${problem ? shown(problem, 200) : "Loading the session."}</p>
      <p><a class="act" href="#/">Back to the list</a></p></section>`;
  }
  const ended = !row.process; // a completed agent may still run
  // The end of the session that was followed before says nothing of this one.
  const over = screen.over && screen.session === row.id;
  if (tab === "peek" && !ended && !over) screen.open(row.id, row.label);
  else if (tab !== "peek" || ended) screen.close();
  if (ui.changes !== null && ui.changes.session !== row.id && tab !== "changes") ui.changes.close();
  const shownPanel = panelOf(row.id, tab);
  showPanel(shownPanel);
  return html`<section class="session" aria-labelledby="session-title" data-session=${row.id}>
    ${sessionHead(row)}
    <nav class="tabs" role="tablist" aria-label="Session">
      ${TABS.map((name) => html`<button role="tab" id="tab-${name}" aria-selected=${name === tab} aria-controls="tab-panel" tabindex=${name === tab ? 0 : -1}
          @click=${() => go(sessionPath(row.id, name))} @keydown=${tabKeys}>${TITLES[name]}${name === "messages" && row.held ? ` (${row.held} held)` : ""}</button>`)}
    </nav>
    ${needBesideChanges()}
    <div role="tabpanel" id="tab-panel" aria-labelledby="tab-${tab}" class="panel panel-${tab}" tabindex="0">${panel(shownPanel, tab, row, ended)}</div>
    ${["peek", "messages", "actions"].includes(tab) ? composer(row, reload) : nothing}
  </section>`;
}

function tabKeys(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (steps === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  const next = TABS[(TABS.indexOf(ui.route.tab) + steps + TABS.length) % TABS.length];
  go(sessionPath(ui.route.session, next));
  setTimeout(() => document.getElementById(`tab-${next}`)?.focus());
}

function panel(shownPanel, tab, row, ended) {
  if (tab === "peek") return terminal(shownPanel, row, ended);
  if (tab === "changes") return changesOf(row);
  if (tab === "children" && state.rows.has(row.id)) render(children(row), shownPanel.element);
  else {
    load(shownPanel, tab, row);
    render(ready(shownPanel, (data) => PANELS[tab](data)), shownPanel.element);
  }
  return shownPanel.element;
}

/** The terminal, which draws its lines itself. */
function terminal(shownPanel, row, ended) {
  const view = screen.view(row.id);
  if (!view.element.isConnected) queueMicrotask(() => view.returned());
  if (!ended && !screen.over) return view.element;
  load(shownPanel, "output", row);
  return ready(shownPanel, (data) => {
    view.label = "Last output";
    view.show(data.lines);
    const words = data.archived ? "The terminal is closed. These are its last lines." : "The process has ended.";
    return html`<p class="hint">${words}${data.lines.length ? nothing : " It has printed nothing."}</p>${view.element}`;
  });
}

/** The changes, with their own part of the page: it comes when somebody looks at changes for the first time. */
function changesOf(row) {
  if (ui.changes !== null) {
    ui.changes.open(row.id, changesLoad.begun?.session === row.id ? changesLoad.begun : undefined);
    return ui.changes.element;
  }
  if (!changesLoad.began) {
    changesLoad.began = true;
    beginChanges(row.id);
  }
  return changesLoad.failed ? html`<p class="problem">A part of this page could not be loaded. <a href=${location.href} @click=${() => location.reload()}>Load it again</a></p>`
    : html`<p class="empty">Loading.</p>`;
}
const changesLoad = { began: false, failed: false, begun: null };

/** Load that part of the page, and ask for the changes meanwhile. */
function beginChanges(session) {
  const loading = new AbortController();
  const answer = changesSince(session, "start", loading);
  answer.catch(() => {}); // the part of the page tells it
  import("./changes.js").then(({ changes }) => {
    ui.changes = changes;
    changesLoad.begun = { session, loading, answer };
    ui.drawNow();
    if (changes.session !== session) loading.abort();
  }, () => {
    loading.abort();
    changesLoad.failed = true;
    ui.draw();
  }).finally(() => (changesLoad.begun = null));
}

function ready({ data, error }, draw) {
  const problem = error ? html`<p class="problem">${error}</p>` : nothing;
  if (data === null) return error ? problem : html`<p class="empty">Loading.</p>`;
  return html`${problem}${draw(data)}`;
}

const LONG = 400;
const long = (text) => text.length <= LONG && text.split("\n").length <= 6
  ? html`<span class="words">${text}</span>`
  : html`<details><summary>${shown(text, 120)}</summary><span class="words">${text}</span></details>`;

const PANELS = {
  actions: (list) => list.length === 0 ? html`<p class="empty">Nothing is known of its work yet.</p>`
    : html`<ol class="feed">${list.map((act) => html`<li class="k-${act.kind}"><time datetime=${act.timestamp}>${clock(act.timestamp, true)}</time>
        <span class="kind">${act.kind}</span> ${long(shownLines(act.text))}</li>`)}</ol>`,
  messages: (list) => list.length === 0 ? html`<p class="empty">No messages from or to this session.</p>`
    : html`<ol class="feed">${list.map(messageItem)}</ol>`,
  events: ({ events, checkpoints }) => html`
    ${checkpoints.length ? html`<h3>Checkpoints</h3><ol class="feed">${checkpoints.map((point) => html`<li><time datetime=${point.timestamp}>${clock(point.timestamp)}</time> ${long(shownLines(point.message))}</li>`)}</ol>` : nothing}
    <h3>Events</h3>${eventList(events)}`,
  why: (why) => html`<p><b>${why.status}</b> (${shown(why.status_source)}): ${shown(why.status_reason || "-")}</p>
    <table><caption>What each source says, the strongest first</caption>
      <thead><tr><th scope="col">Source</th><th scope="col">Says</th><th scope="col">Reason</th><th scope="col">Since</th><th scope="col">Believed</th></tr></thead>
      <tbody>${why.evidence.map((entry) => html`<tr class=${entry.believed ? "" : "over"}><th scope="row">${shown(entry.source)}</th><td>${shown(entry.says)}</td>
        <td>${shown(entry.reason ?? "-")}</td><td>${clock(entry.since, true)}</td><td>${entry.believed ? "yes" : `no: ${shown(entry.why_not ?? "-")}`}</td></tr>`)}</tbody></table>
    <ul>${why.facts.map((fact) => html`<li>${shown(fact)}</li>`)}</ul>`,
  children: (list) => list.length === 0 ? html`<p class="empty">No sessions below it.</p>`
    : html`<ul class="feed">${flat(list).map(([child, depth]) => childItem(child.session_id, depth, shown(child.label), `${child.status}: ${shown(child.completion_message ?? child.status_reason, 300)}`))}</ul>`,
  requests: (list) => list.length === 0 ? html`<p class="empty">This session has asked for nothing.</p>`
    : html`<ol class="feed">${list.map((request) => html`<li><time datetime=${request.created_at}>${clock(request.created_at)}</time> <b>${request.request_id}</b>
        <span class="kind">${request.kind}</span> ${long(requestText(request))} <span class="state">${requestState(request)}</span></li>`)}</ol>`,
};

export const eventList = (events) => events.length === 0 ? html`<p class="empty">No events.</p>`
  : html`<ol class="feed">${[...events].reverse().map((event) => html`<li data-type=${event.type}><time datetime=${event.timestamp}>${clock(event.timestamp, true)}</time>
      <span class="kind">${event.type}</span> <span class="words">${shown(event.message, 2000)}</span></li>`)}</ol>`;

/** The sessions of a tree, each with its depth. */
const flat = (list, depth = 0) => list.flatMap((child) => [[child, depth], ...flat(child.children, depth + 1)]);

const childItem = (id, depth, label, words) =>
  html`<li .style=${`padding-inline-start:${Math.min(6, depth) * 1.25}rem`}><a href=${sessionPath(id)}>${label}</a> ${words}</li>`;

function requestText(request) {
  const questions = request.questions.map(({ question }) => question).join(" / ");
  const text = questions || `${request.tool ?? ""} ${JSON.stringify(request.arguments ?? {})}`;
  return shownLines(text);
}

function requestState(request) {
  if (request.answer === null) return request.state === "open" ? "open" : shown(request.reason ?? request.state, 200);
  const answer = request.answer.answers.join(" / ") || request.answer.message || "";
  const verb = !request.answer.approved ? "denied" : request.kind === "question" ? "answered" : "approved";
  return `${verb} by ${shown(request.answered_by_label ?? request.answered_by ?? "-", 60)}${answer ? `: ${shown(answer, 200)}` : ""}`;
}

/** The state in the words of the daemon: nothing here says more than it knows. */
function messageItem(message) {
  const bad = ["failed", "expired", "unconfirmed"].includes(message.status);
  const reason = message.reason ? ` (${shown(message.reason, 200)})` : "";
  const proof = message.evidence ? `, known from ${shown(message.evidence, 100)}` : "";
  const at = message.acknowledged_at ?? message.submitted_at;
  return html`<li data-message=${message.message_id} data-state=${message.status}><time datetime=${message.created_at}>${clock(message.created_at)}</time>
    <b>${shown(message.from_label, 80)} → ${shown(message.label ?? "operator", 80)}</b> ${long(shownLines(message.text))}
    <span class="state ${bad ? "bad" : ""}">${message.status}${reason}${at ? ` ${clock(at, true)}` : ""}${proof}, ${message.mode}</span></li>`;
}

function children(row) {
  const found = below(row.id);
  if (found.length === 0) return html`<p class="empty">No sessions below it in the list.</p>`;
  return html`<ul class="feed">${found.map(([child, depth]) => childItem(child.id, depth, html`<span class="sign s-${statusClass(child)}" aria-hidden="true">${child.sign}</span> ${child.label}`,
      `${child.word} ${span(nowS() - child.since)}: ${child.task}`))}</ul>`;
}
