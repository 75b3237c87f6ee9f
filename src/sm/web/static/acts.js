// Carries out the actions of the server's table: what they need is asked for here, what they may do is decided there.

import { press } from "./queue.js";
import { rowOf, state } from "./state.js";
import { focusSoon, go, keepInputs, sessionPath, tell, ui } from "./ui.js";

const SCOPES = ["look", "answer", "all"];
const UNDO_MS = 5000;
const NO_CONNECTION = { ok: false, code: "lost", words: "no connection to sm web: nothing was sent" };
const UNKNOWN = { ok: false, code: "lost", words: "the connection was lost: look whether it was done" };

const pending = new Map();
let number = 0;

/** Send an action; the answer is a frame `done`. */
export function send(action, target) {
  const n = ++number;
  return new Promise((resolve) => {
    if (state.phase !== "live" || !ui.connection.send({ t: "act", n, action, ...target })) resolve(NO_CONNECTION);
    else pending.set(n, resolve);
  });
}

export function takeDone(frame) {
  pending.get(frame.n)?.(frame);
  pending.delete(frame.n);
}

export function losePending() {
  for (const resolve of pending.values()) resolve(UNKNOWN);
  pending.clear();
}

const mayDo = (action) => SCOPES.indexOf(state.hello?.scope) >= SCOPES.indexOf(action?.scope ?? "look");
export const actionOf = (name) => state.hello?.actions.find((action) => action.name === name);
export const keyOf = (name) => actionOf(name)?.key ?? "";

export const DECISIONS = ["approve", "deny", "answer"];

/** The decision on a request that has this key. */
export const decisionOf = (key) => [...DECISIONS, "always"].find((name) => key !== "" && keyOf(name) === key);

/** What the server says of an action on a session, or in the chosen workspace if it needs no session. */
export function offerOf(name, session) {
  if (actionOf(name)?.needs_session === false) return state.offers[state.workspace]?.[name];
  return state.details.get(session)?.actions[name];
}

/** A terminal in the page needs a keyboard. */
export const isTouch = matchMedia("(pointer: coarse)");

/** Why the action is not possible; null: it is. */
export function refusal(name, { need = null, session = null }) {
  const action = actionOf(name);
  if (action === undefined) return "unknown to this server";
  if (name === "attach" && isTouch.matches) return "a terminal needs a keyboard";
  if (!mayDo(action)) return `this login may not: its scope is ${state.hello.scope}`;
  if (need !== null && name in (need.actions ?? {})) return reason(need.actions[name]);
  const target = session ?? need?.session_id ?? null;
  if (action.needs_session && target === null) return "select a session";
  const known = offerOf(name, target);
  return known === undefined ? "loading" : reason(known);
}

/** True if this login may never do it. */
export const isForbidden = (name) => state.hello !== null && !mayDo(actionOf(name));

const reason = (entry) => (entry !== null && typeof entry === "object" ? (entry.refusal ?? null) : (entry ?? null));

export const commandOf = (name, session) => offerOf(name, session)?.command ?? "";

/** Begin an action on a session or a request, as a key, a button or the palette asks for it. */
export function begin(name, target) {
  const { need = null } = target;
  const session = target.session ?? need?.session_id ?? null;
  const why = refusal(name, { need, session });
  if (why !== null) {
    tell(`not possible: ${why}`, true);
    return;
  }
  if (name === "spawn") openSheet();
  else if (name === "approve" && need) press(need, name);
  else if (name === "deny" || name === "answer") openInput(need, name);
  else if (name === "always") openForm(name, session, need);
  else if (name === "send") {
    go(sessionPath(session, "messages"));
    setTimeout(() => focusSoon(".compose textarea"));
  } else if (name === "kill") {
    ui.dialog = { kind: "kill", session };
    ui.draw();
  } else if (actionOf(name).fields.length || offerOf(name, session)?.question) openForm(name, session);
  else if (name === "output") go(sessionPath(session, "peek"));
  else if (name === "why") go(sessionPath(session, "why"));
  else if (name === "copy-id") copy(session);
  else if (name === "attach") window.open(`/attach#${encodeURIComponent(session)}`, "_blank", "noopener");
  else carryOut(name, session);
}

/** Open the sheet that starts an agent. Its script is loaded when somebody opens it first. */
function openSheet() {
  ui.dialog = { kind: "start", view: () => "" }; // from now on, keys do nothing else
  import("./start.js").then(({ openStart, startView }) => {
    ui.dialog = { kind: "start", view: startView };
    openStart();
    ui.drawNow();
  }, () => {
    ui.dialog = null;
    tell("the sheet could not be loaded: load the page again", true);
  });
}

/** Ask for the fields of an action, and for a yes. What is there now is the default: later changes do not replace it. */
function openForm(name, session, need = null) {
  const dialog = { kind: "form", name, session, need, workspace: state.workspace, offer: need?.[name] ?? offerOf(name, session), busy: false, problem: "", place: "" };
  ui.dialog = dialog;
  ui.draw();
}

export const wordsOf = (done) => (done.hint && !done.ok ? `${done.words} (hint: ${done.hint})` : done.words);

export async function carryOut(name, session, more = {}) {
  const { title, needs_session: needsSession, undo } = actionOf(name);
  const label = rowOf(session)?.label ?? session;
  tell(needsSession ? `${title}: ${label} …` : `${title} …`);
  const target = needsSession ? { session, need: null } : { workspace: state.workspace || null };
  const done = await send(name, { ...target, ...more });
  tell(wordsOf(done), !done.ok);
  if (done.ok && undo) {
    ui.undo = { name: undo, session, label, until: performance.now() + UNDO_MS };
    ui.draw();
  }
  return done;
}

export function undo() {
  const open = ui.undo;
  ui.undo = null;
  if (open === null || performance.now() >= open.until) tell("nothing to undo");
  else carryOut(open.name, open.session);
  ui.draw();
}

export function openInput(need, kind) {
  if (kind === "answer") ui.opened.add(need.key);
  else ui.inputs.set(need.key, { text: "", words: [], picks: [], ...ui.inputs.get(need.key), open: true });
  const line = `[data-need="${CSS.escape(need.key)}"]`;
  focusSoon(kind === "answer" ? `${line} .need-questions :is(button, input, textarea)` : `${line} .need-input:not(.need-questions) textarea`);
  document.querySelector(`${line} .need-input`)?.scrollIntoView({ block: "nearest" });
}

/** Send a decision with the digest of what is shown. The caller has looked at the guard. */
export async function decide(need, action, { text = "", answers = [], drafts = [], changes = "" }) {
  ui.answered.add(need.key);
  tell(`${actionOf(action)?.title ?? action}: ${need.key} …`);
  const target = { session: need.session_id, need: need.key, shown: need.digest, text, answers, ...(drafts.length ? { drafts, changes } : {}) };
  const done = await send(action, target);
  if (done.ok) {
    ui.inputs.delete(need.key);
    ui.opened.delete(need.key);
    keepInputs();
  }
  ui.answered.delete(need.key);
  tell(wordsOf(done), !done.ok);
  return done;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    tell(`copied: ${text}`);
  } catch {
    ui.dialog = { kind: "copy", text };
    ui.draw();
  }
}
