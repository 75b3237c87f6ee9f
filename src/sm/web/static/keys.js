// The keys of the page: those of sm top. A key acts on the focused request, else on the selected session.

import { begin, commandOf, copy, decisionOf, undo } from "./acts.js";
import { close, openDialog } from "./dialogs.js";
import { focusedNeed, focusNeed, moveNeed, needKey, revealNeed } from "./needs.js";
import { lines, rowOf, state } from "./state.js";
import { choose, fold, move, select, sendView, touch } from "./tree.js";
import { go, sessionPath, TABS, tell, ui } from "./ui.js";

const PAGE = 10;

const isTyping = (target) => target instanceof HTMLElement && target.type !== "checkbox" && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

/** What a key or the palette acts on. */
export function target() {
  const need = focusedNeed();
  if (need !== null) return { need, session: need.session_id };
  const session = ui.route.session ?? state.selected;
  return { need: null, session: rowOf(session) ? session : null };
}

export function listenToKeys() {
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (ui.dialog === null) openDialog({ kind: "palette", text: "", at: 0, target: target() });
      else close();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || ui.dialog !== null || state.hello === null) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape" && event.target.id === "filter") leaveFilter(event.target);
      return;
    }
    if (press(event.key, event.target)) event.preventDefault();
  });
}

function leaveFilter(input) {
  if (input.value) setFilter("");
  document.getElementById("treegrid")?.focus();
}

export function setFilter(text) {
  touch();
  state.view.filter = text;
  sendView();
  ui.drawNow();
}

export function nextSort() {
  const sorts = (state.hello?.sorts ?? []).map((sort) => sort.name ?? sort);
  if (sorts.length === 0) return;
  state.view.sort = sorts[(sorts.indexOf(state.view.sort ?? sorts[0]) + 1) % sorts.length];
  sendView();
  tell(`order: ${state.view.sort}`);
}

/** Return whether the key has an effect here. */
function press(key, element) {
  const need = focusedNeed();
  if (need !== null && needKey(need, key)) return true;
  if (element instanceof HTMLElement && element.closest(".screen, .panel") && /^(Arrow|Page|Home|End| )/.test(key)) return false;
  if (element instanceof HTMLElement && /^(BUTTON|A|SUMMARY|INPUT)$/.test(element.tagName) && (key === "Enter" || key === " ")) return false;
  if (need === null && ui.route.tab === "changes" && inChanges(element) && ui.changes?.key(key)) return true;
  if (need === null && key === "/" && ui.route.tab === "peek" && inChanges(element)) return ui.screen?.find(), true;
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE, g: -Infinity, Home: -Infinity, G: Infinity, End: Infinity }[key];
  if (step !== undefined) {
    if (need !== null) moveNeed(Math.max(-1e6, Math.min(1e6, step)));
    else move(Math.max(-1e6, Math.min(1e6, step)));
    return true;
  }
  const handler = VIEW[key] ?? (/^[0-9]$/.test(key) ? () => workspaceKey(Number(key)) : null);
  if (handler) {
    handler(need);
    return true;
  }
  const action = state.hello.actions.find((entry) => entry.key === key);
  if (action === undefined) return false;
  if (decisionOf(key)) selectRequest();
  else if (target().session === null && action.needs_session) tell("select a session");
  else begin(action.name, target());
  return true;
}

/** The keys of the changes and of the terminal, unless the list of sessions has the focus. */
const inChanges = (element) => !(element instanceof HTMLElement && element.closest(".column"));

const VIEW = {
  "/": () => document.getElementById("filter")?.focus(),
  "?": () => openDialog({ kind: "help" }),
  ":": () => openDialog({ kind: "palette", text: "", at: 0, target: target() }),
  S: nextSort,
  u: undo,
  "[": () => stepAside(-1),
  "]": () => stepAside(1),
  e: () => go("#/events"),
  $: () => go("#/spend"),
  T: () => go("#/timeline"),
  A: toggleArchived,
  N: () => (state.needs.length ? focusNeed(state.needs[0].key) : tell("nothing needs you")),
  c: (need) => {
    const { session } = target();
    if (need?.kind === "request") copy(need.copy);
    else if (session) copy(commandOf("why", session).replace(/^sm why/, "sm status") || `sm status ${session}`);
  },
  Enter: () => {
    const { session } = target();
    if (session) go(sessionPath(session));
  },
  Escape: () => {
    if (ui.route.page !== "board") go("#/");
    else if (state.view.filter) setFilter("");
    else document.getElementById("treegrid")?.focus();
  },
  " ": () => state.selected && fold(state.selected),
  ArrowLeft: () => foldOrLeave(true),
  ArrowRight: () => state.selected && fold(state.selected, false),
};

/** Fold the selected session; if that is done already, select its parent. */
function foldOrLeave() {
  if (state.selected === null || fold(state.selected, true)) return;
  const list = lines();
  const place = list.findIndex(([id]) => id === state.selected);
  for (let above = place - 1; above >= 0; above--) {
    if (list[above][3] < list[place][3]) {
      select(list[above][0]);
      return;
    }
  }
}

/** Another tab of the session, or another workspace. */
function stepAside(steps) {
  if (ui.route.page === "session") {
    go(sessionPath(ui.route.session, after(TABS, ui.route.tab, steps)));
  } else choose(after(state.chips.map((chip) => chip.slug ?? ""), state.workspace, steps));
}

const after = (list, one, steps) => list[(list.indexOf(one) + steps + list.length) % list.length];

export function toggleArchived() {
  touch();
  state.view.archived = !state.view.archived;
  sendView();
  tell(`archived sessions are ${state.view.archived ? "shown" : "hidden"}`);
}

function workspaceKey(digit) {
  const chip = state.chips[digit];
  if (chip) choose(chip.slug ?? "");
}

/** A decision needs the request in sight: the first press focuses it. */
function selectRequest() {
  const { session } = target();
  const request = state.needs.find((need) => need.kind === "request" && need.session_id === session)
    ?? state.needs.find((need) => need.kind === "request");
  if (request === undefined) tell("no request is open");
  else {
    revealNeed(request);
    tell(`${request.key} is selected; press again`);
  }
}
