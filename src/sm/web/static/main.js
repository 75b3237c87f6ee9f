// Starts the page: the login by the link's code, the connection, and the drawing, at most ten times a second.

import { html, live, nothing, render } from "./vendor/lit/lit.js";
import { begin, isForbidden, keyOf, losePending, refusal, takeDone, undo } from "./acts.js";
import { forget, login, token } from "./api.js";
import { border } from "./border.js";
import { Connection } from "./connection.js";
import { dialogView, filterHelp, openDialog } from "./dialogs.js";
import { listenToKeys, setFilter, target } from "./keys.js";
import { watchLeaving } from "./left.js";
import { needsRegion, notePassed, settle } from "./needs.js";
import { speak, tellNews } from "./notices.js";
import { pageBeside } from "./pages.js";
import { closeMenusOutside, settings } from "./settings.js";
import { dropParts, keepView, lines, staleForS, state, takeBoard } from "./state.js";
import { choose, forgetSelection, sayRests, sendView, syncSelection, touch, tree } from "./tree.js";
import { isWide, keepInputs, readRoute, tell, ui } from "./ui.js";
import { span } from "./words.js";

const EVERY_MS = 100;
const TOAST_MS = 8000;
const SHELL_MS = 50; // the page is drawn without sessions if they have not come by then
const root = document.getElementById("app");
let drawnAt = -EVERY_MS;
let timer = 0;

// Drawing

function drawNow() {
  clearTimeout(timer);
  timer = 0;
  drawnAt = performance.now();
  const needKey = document.activeElement?.closest("[data-need]")?.dataset.need;
  const inside = document.activeElement !== document.body;
  render(view(), root);
  keepFocus(inside, needKey);
  document.documentElement.dataset.revision = state.frame;
  document.documentElement.dataset.phase = state.phase;
  document.documentElement.dataset.place = location.hash;
}

/** An update never takes the focus away: it stays in its region if its element is gone. */
function keepFocus(inside, needKey) {
  if (!inside || document.activeElement !== document.body) return;
  if (needKey !== undefined) (document.querySelector("[data-need]") ?? document.getElementById("needs-title"))?.focus();
  else if (ui.dialog === null) (document.querySelector("#session-title, #page-title") ?? document.getElementById("treegrid"))?.focus();
}

/** Draw soon. A hidden tab draws nothing; it is drawn when it is shown again. */
function draw() {
  if (timer || document.hidden) return;
  timer = setTimeout(() => requestAnimationFrame(drawNow), Math.max(0, drawnAt + EVERY_MS - performance.now()));
}
ui.draw = draw;
ui.drawNow = drawNow;

function view() {
  if (state.phase === "login") return loginPage();
  const stale = staleForS();
  const { page } = ui.route;
  return html`<a class="skip" href="#treegrid" @click=${skip}>Go to the sessions</a>
    ${header(stale)}
    <main class="main page-${page}${isWide() ? " wide" : ""}" data-stale=${stale !== null || state.unshown !== ""}>
      <div class="column" id="list">${needsRegion()} ${toolbar()} ${tree()}</div>
      ${page === "board" ? nothing : border()}
      ${page === "board" ? nothing : pageBeside(page)}
    </main>
    ${bars()} ${dialogView()}`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("treegrid")?.focus();
}

function header(stale) {
  const link = (path, title, page) => html`<a href=${path} aria-current=${ui.route.page === page ? "page" : nothing}>${title}</a>`;
  const newer = state.hello?.version && state.version && state.hello.version !== state.version;
  return html`<header class="top">
      <h1><a href="#/">sm</a></h1><p class="summary">${state.summary}</p>
      <nav aria-label="Views">${link("#/events", "Events", "events")}${link("#/spend", "Spend", "spend")}${link("#/timeline", "Timeline", "timeline")}</nav>
      <button class="act small" aria-label="Actions" @click=${() => openDialog({ kind: "palette", text: "", at: 0, target: target() })}>⌘<kbd aria-hidden="true">:</kbd></button>
      ${settings()}
    </header>
    ${stale === null ? nothing : html`<p class="lost" role="alert">${lostWords(stale)}
      ${state.phase === "lost" ? html`<button class="act small" @click=${() => ui.connection.retry()}>Try now</button>` : nothing}</p>`}
    ${state.unshown ? html`<p class="lost" role="alert">${state.unshown}: what you see may be out of date</p>` : nothing}
    ${newer ? html`<p class="newer">sm is now ${state.hello.version}. <button class="act small" @click=${() => location.reload()}>Reload</button></p>` : nothing}`;
}

function lostWords(stale) {
  const isDaemon = state.phase !== "lost";
  const reason = state.daemonLostReason?.startsWith("no daemon") ? "" : state.daemonLostReason;
  const what = isDaemon ? `no daemon${reason ? ` (${reason})` : ""}` : state.notice || "no connection to sm web";
  const next = isDaemon ? "connecting again. Your agents keep running. To start it: sm daemon start" : "connecting again";
  if (!state.receivedAt || (state.loading && state.rows.size === 0)) return `${what}; ${next}`;
  return `${what}: what you see is ${span(stale)} old; ${next}`;
}

function toolbar() {
  const sorts = (state.hello?.sorts ?? []).map((sort) => (typeof sort === "string" ? { name: sort, title: sort } : sort));
  const sort = state.view.sort ?? sorts[0]?.name;
  return html`<div class="toolbar">
    <div class="chips" role="group" aria-label="Workspace">${state.chips.map((chip, place) => {
      const slug = chip.slug ?? "";
      return html`<button class="chip" aria-pressed=${slug === state.workspace} @click=${() => choose(slug)}>${place < 10 ? html`<kbd aria-hidden="true">${place}</kbd>` : nothing}<span class="name">${chip.title}</span>
        <span class="count">${chip.count}</span>${chip.needs && slug !== state.workspace ? html`<span class="alarm">${chip.needs}!<span class="unseen"> need you</span></span>` : nothing}</button>`;
    })}${newButton("workspace", "chip", html`+<span class="unseen"> Create a workspace</span>`)}</div>
    <div class="tools">
      ${newButton("spawn", "act", html`Start an agent<kbd aria-hidden="true">${keyOf("spawn")}</kbd>`)}
      <input id="filter" type="search" maxlength="500" placeholder="Filter /" aria-label="Filter the sessions" title=${filterHelp(state.hello?.filter_help ?? "")} autocomplete="off" spellcheck="false"
        .value=${live(state.view.filter)} @input=${(event) => setFilter(event.target.value)}>
      <label><span class="label">Order</span> <select aria-label="Order" @change=${(event) => {
        touch();
        state.view.sort = event.target.value;
        sendView();
      }}>${sorts.map(({ name, title }) => html`<option value=${name} ?selected=${name === sort}>${title}</option>`)}</select></label>
      <label class="check"><input type="checkbox" .checked=${live(state.view.archived)} @change=${(event) => {
        touch();
        state.view.archived = event.target.checked;
        sendView();
      }}> archived</label>
      ${state.waiting ? html`<span class="tag">${state.waiting} new</span>` : nothing}
      ${state.problems.map((problem) => html`<span class="problem">${problem}</span>`)}
    </div></div>`;
}

/** A button of an action that needs no session; nothing if this login may never do it. */
function newButton(name, look, content) {
  if (isForbidden(name)) return nothing;
  const why = refusal(name, {});
  return html`<button class=${look} data-act=${name} aria-disabled=${why !== null} title=${why ?? nothing}
    @click=${() => begin(name, {})}>${content}</button>`;
}

function bars() {
  const clock = performance.now();
  if (ui.undo !== null && clock >= ui.undo.until) ui.undo = null;
  if (ui.toast !== null && clock - ui.toast.at > TOAST_MS) ui.toast = null;
  return html`<div class="bars">
    ${ui.undo ? html`<div class="undo"><span>Archived ${ui.undo.label}</span> <button class="act small" data-act="undo" @click=${undo}>Undo (${Math.ceil((ui.undo.until - clock) / 1000)} s)<kbd aria-hidden="true">u</kbd></button></div>` : nothing}
    <p class=${ui.toast?.bad ? "toast bad" : "toast"} role="status">${ui.toast?.words ?? ""}</p></div>`;
}

function loginPage() {
  return html`<main class="login"><h1>sm</h1><p>${state.notice || "This browser has no login."}</p>
    <p>On the machine with your agents, type <kbd>sm web link</kbd> and open the link. It works once, for two minutes.</p></main>`;
}

// The server

/** A hidden tab gets at once only what needs the person. */
const sayHidden = () => ui.connection.send({ t: "look", hidden: document.hidden });

function takeFrame(frame) {
  if (frame.t === "hello") {
    state.hello = frame;
    state.version ??= frame.version;
    state.view.sort ??= frame.sorts?.[0]?.name ?? frame.sorts?.[0] ?? null;
    sendView();
    sayRests();
    sayHidden();
    ui.screen?.ask();
    forgetSelection();
  } else if (frame.t === "board") {
    const before = state.needs;
    const chosen = state.workspace;
    const wasLost = state.lostAt !== null;
    if (!takeBoard(frame)) return;
    if (chosen !== state.workspace) sendView();
    if (before !== state.needs) notePassed(before);
    if (state.selected === null && lines().length) state.selected = lines()[0][0];
    syncSelection();
    if (wasLost) ui.reload();
    tellNews();
    if (state.frame === 1) return drawNow(); // the person waits for it
  } else if (frame.t === "detail") state.details.set(frame.session, frame);
  else if (frame.t === "settled") settle(frame.key, frame.words);
  else if (frame.t === "done") takeDone(frame);
  else if (frame.t === "screen") ui.screen?.take(frame);
  draw();
}

function lose(reason) {
  if (state.lostAt === null) state.lostAt = performance.now();
  state.phase = "lost";
  state.notice = reason;
  dropParts();
  losePending();
  draw();
}

function refuse() {
  forget();
  state.phase = "login";
  state.notice = "This login is not valid any more.";
  drawNow();
}

function readHash() {
  const before = ui.route;
  ui.route = readRoute(location.hash);
  if (ui.route.session !== null) {
    state.selected = ui.route.session;
    syncSelection();
  } else {
    ui.screen?.close();
    ui.changes?.close();
    if (!state.rows.has(state.selected) && !state.ghosts.has(state.selected)) state.selected = lines()[0]?.[0] ?? null;
  }
  drawNow();
  if (before.page !== ui.route.page || before.session !== ui.route.session) {
    const place = ui.route.page === "board" ? document.getElementById("treegrid") : document.querySelector("#session-title, #page-title");
    if (document.activeElement?.closest(".tree")?.offsetParent) return; // the list is beside it
    place?.focus();
    if (ui.route.page !== "board") scrollTo(0, 0);
  }
}

async function start() {
  const code = location.hash.slice(1);
  if (code && !code.startsWith("/")) {
    // The code is of no use any more, and must not stay in the history.
    history.replaceState(null, "", "/");
    try {
      await login(code);
    } catch (error) {
      if (!token()) {
        state.phase = "login";
        state.notice = `The link did not work: ${error.message}`;
        drawNow();
        return;
      }
      tell(`The link did not work: ${error.message}. The earlier login is used.`, true);
    }
  }
  if (!token()) {
    state.phase = "login";
    drawNow();
    return;
  }
  watchLeaving();
  ui.route = readRoute(location.hash);
  ui.connection = new Connection();
  ui.connection.addEventListener("frame", ({ detail }) => takeFrame(detail));
  ui.connection.addEventListener("lost", ({ detail }) => lose(detail));
  ui.connection.addEventListener("refused", refuse);
  state.selected = ui.route.session;
  ui.connection.open(token(), () => (state.revision === null ? null : String(state.revision)));
  listenToKeys();
  closeMenusOutside();
  addEventListener("hashchange", readHash);
  addEventListener("resize", draw);
  addEventListener("scroll", draw, { passive: true });
  addEventListener("pagehide", () => {
    keepView();
    keepInputs();
  });
  document.addEventListener("visibilitychange", () => {
    sayHidden();
    if (document.hidden) ui.screen?.pause();
    else {
      ui.screen?.ask();
      drawNow();
    }
  });
  setInterval(() => performance.now() - drawnAt >= 1000 && draw(), 1000); // the ages
  setTimeout(() => drawnAt < 0 && drawNow(), SHELL_MS);
}

addEventListener("hashchange", () => {
  // A new link was opened in this tab.
  if (location.hash.length > 1 && !location.hash.startsWith("#/") && !location.hash.startsWith("#treegrid")) location.reload();
});
addEventListener("storage", (event) => {
  if (event.key === "sm.token" && state.phase === "login" && event.newValue) location.reload();
});
speak("");
start();
