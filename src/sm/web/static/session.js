// The page of one session: its state and acts, and tabs for the terminal, the work, the messages and the reasons.

import { html, live, nothing, ref } from "./vendor/lit/lit.js";
import { begin, isTouch, refusal, send, wordsOf } from "./acts.js";
import { changesSince, get } from "./api.js";
import { needBesideChanges, revealNeed } from "./needs.js";
import { screen } from "./screen.js";
import { below, nowS, rowOf, state } from "./state.js";
import { contextBar, statusClass } from "./tree.js";
import { go, isId, sessionPath, TABS, tell, ui } from "./ui.js";
import { clock, shown, shownLines, span, visible } from "./words.js";

const TITLES = { peek: "Terminal", actions: "Work", changes: "Changes", messages: "Messages", events: "Events", why: "Why", requests: "Requests", children: "Children" };
const MODES = { auto: "auto: now, or when the agent can take it", idle: "idle: when its turn is over", urgent: "urgent: interrupts its turn" };
const AGAIN_MS = 1500;
const DRAFT = "sm.draft.";

const loaded = { key: "", data: null, error: "", at: 0, row: null, busy: false };
const modes = new Map();
const sending = new Set();
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
  output: (ref) => get(`/v1/sessions/${ref}/output`, { lines: 500, seen: 1 }),
};

/** Load the data of the open tab if the row has changed since, at most every second and a half. */
function load(kind, row) {
  const key = `${kind} ${row.id}`;
  if (loaded.key !== key) Object.assign(loaded, { key, data: null, error: "", at: 0, row: null });
  const follows = kind === "messages" && (loaded.data ?? []).some((message) => ["queued", "delivering"].includes(message.status));
  if (loaded.busy || document.hidden || (loaded.row === row && !follows && !loaded.error)) return;
  const wait = loaded.at + AGAIN_MS - performance.now();
  if (wait > 0) {
    clearTimeout(again);
    again = setTimeout(ui.draw, wait);
    return;
  }
  if (state.phase !== "live") return;
  loaded.busy = true;
  loaded.at = performance.now();
  loaded.row = row;
  SOURCES[kind](encodeURIComponent(row.id), row.id)
    .then((data) => loaded.key === key && Object.assign(loaded, { data, error: "" }))
    .catch((error) => loaded.key === key && (loaded.error = error.message))
    .finally(() => {
      loaded.busy = false;
      ui.draw();
    });
}

export function reload() {
  Object.assign(loaded, { at: 0, row: null });
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
  if (tab === "peek" && !ended && !screen.over) screen.open(row.id, row.label);
  else if (tab !== "peek" || ended) screen.close();
  if (tab !== "changes") ui.changes?.close();
  return html`<section class="session" aria-labelledby="session-title" data-session=${row.id}>
    <header class="session-head">
      <a class="act back" href="#/" aria-label="Back to the list">←</a>
      <h2 id="session-title" tabindex="-1"><span class="sign s-${statusClass(row)}" aria-hidden="true">${row.sign}</span> ${row.label}</h2>
      <p class="session-status"><b class="s-${statusClass(row)}">${row.word} ${span(nowS() - row.since)}</b>${row.task ? html`: ${row.task}` : nothing}</p>
      ${facts(row)} ${actButtons(row)}
    </header>
    <nav class="tabs" role="tablist" aria-label="Session">
      ${TABS.map((name) => html`<button role="tab" id="tab-${name}" aria-selected=${name === tab} aria-controls="tab-panel" tabindex=${name === tab ? 0 : -1}
          @click=${() => go(sessionPath(row.id, name))} @keydown=${tabKeys}>${TITLES[name]}${name === "messages" && row.held ? ` (${row.held} held)` : ""}</button>`)}
    </nav>
    ${needBesideChanges()}
    <div role="tabpanel" id="tab-panel" aria-labelledby="tab-${tab}" class="panel panel-${tab}" tabindex="0">${panel(tab, row, ended)}</div>
    ${tab === "peek" || tab === "messages" || tab === "actions" ? compose(row) : nothing}
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

function facts(row) {
  const list = [
    ["ID", row.id], ["Type", row.type], ["Model", row.model], ["Workspace", row.workspace], ["Done", row.progress],
    ["Tokens", row.tokens], ["Cost", row.cost], ["With descendants", row.tree_cost],
  ].filter(([, value]) => value && value !== "-");
  return html`<dl class="facts">${list.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
    ${row.context_percent == null ? nothing : html`<div><dt>Context</dt><dd>${contextBar(row)}</dd></div>`}
    ${(row.badges ?? []).map((badge) => html`<div><dt class="unseen">Note</dt><dd class="tag">${badge}</dd></div>`)}</dl>`;
}

const HERE = ["approve", "deny", "answer", "send", "output", "why"]; // they have a place of their own
const isOffered = ({ name, needs_session: needsSession }) => needsSession && !HERE.includes(name) && !(name === "attach" && isTouch.matches);

function actButtons(row) {
  const actions = (state.hello?.actions ?? []).filter(isOffered);
  const asked = state.needs.find((need) => need.kind === "request" && need.session_id === row.id);
  return html`<div class="buttons acts" role="group" aria-label="Actions">
    ${asked ? html`<button class="act go" @click=${() => revealNeed(asked)}>Answer ${asked.key}</button>` : nothing}
    ${actions.map((action) => {
      const why = refusal(action.name, { session: row.id });
      return html`<button class="act ${["kill", "rm"].includes(action.name) ? "stop" : ""}" data-act=${action.name} aria-disabled=${why !== null} title=${why ?? nothing}
          @click=${() => begin(action.name, { session: row.id })}>${action.title}<kbd aria-hidden="true">${action.key}</kbd></button>`;
    })}
  </div>`;
}

function panel(tab, row, ended) {
  if (tab === "peek") {
    if (!ended && !screen.over) return screen.element;
    load("output", row);
    return ready((data) => html`<p class="hint">${data.archived ? "The terminal is closed. These are its last lines." : "The process has ended."}</p>
      <div class="screen" tabindex="0" role="region" aria-label="Last output" ${atEnd}>${data.lines.map((line) => html`<div>${visible(line) || "\u00a0"}</div>`)}</div>`);
  }
  if (tab === "changes") return changesOf(row);
  if (tab === "children" && state.rows.has(row.id)) return children(row);
  load(tab, row);
  return ready((data) => PANELS[tab](data));
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

function ready(draw) {
  const problem = loaded.error ? html`<p class="problem">${loaded.error}</p>` : nothing;
  if (loaded.data === null) return loaded.error ? problem : html`<p class="empty">Loading.</p>`;
  return html`${problem}${draw(loaded.data)}`;
}

const atEnd = ref((element) => element && queueMicrotask(() => element.scrollTo(0, element.scrollHeight)));

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

/** The live sessions below a session, for the question of a kill. */
export const liveBelow = (id) => below(id).flatMap(([row]) => (row.live ? [row.label] : []));

function compose(row) {
  const why = refusal("send", { session: row.id });
  const mode = modes.get(row.id) ?? "auto";
  const says = state.details.get(row.id)?.predictions[mode];
  const draft = localStorage.getItem(DRAFT + row.id) ?? "";
  const busy = sending.has(row.id);
  const keep = (event) => {
    if (event.target.value) localStorage.setItem(DRAFT + row.id, event.target.value);
    else localStorage.removeItem(DRAFT + row.id);
    ui.draw();
  };
  const submit = async (event) => {
    event.preventDefault();
    const text = localStorage.getItem(DRAFT + row.id) ?? "";
    if (!text.trim() || sending.has(row.id)) return;
    if (why !== null) {
      tell(`not possible: ${why}`, true);
      return;
    }
    sending.add(row.id);
    ui.draw();
    const done = await send("send", { session: row.id, need: null, text, mode });
    sending.delete(row.id);
    // The draft may be another by now: only what was sent is removed.
    if (done.ok && localStorage.getItem(DRAFT + row.id) === text) localStorage.removeItem(DRAFT + row.id);
    tell(wordsOf(done), !done.ok);
    reload();
  };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
    else if (event.key === "Escape") document.getElementById("session-title")?.focus();
  };
  return html`<form class="compose" @submit=${submit}>
    <label for="message" class="hint">Message to ${row.label}</label>
    <textarea id="message" rows="2" placeholder="Message" maxlength="50000" .value=${live(draft)} @input=${keep} @keydown=${keys}></textarea>
    <label class="mode"><span class="unseen">Delivery</span><select .value=${live(mode)} @change=${(event) => {
        modes.set(row.id, event.target.value);
        ui.draw();
      }}>${Object.entries(MODES).map(([name, title]) => html`<option value=${name} ?selected=${name === mode}>${title}</option>`)}</select></label>
    <button class="act go" data-act="send" aria-disabled=${why !== null || busy || !draft.trim()} title=${why ?? nothing}>${busy ? "Sending" : "Send"}</button>
    <p class="hint">${why ?? (says ? `The message ${says}.` : "")}${draft ? " The draft is kept." : ""}</p>
  </form>`;
}

