// The queue of what needs the person: the order of its lines, which of them are unfolded or selected, and the decisions.

import { begin, decide, decisionOf, keyOf, refusal, wordsOf } from "./acts.js";
import { ButtonGuard } from "./guard.js";
import { afterDenial, draftsFor, hasUnkept, readDraftsAgain, roundOf } from "./proposals.js";
import { state } from "./state.js";
import { keepInputs, tell, ui } from "./ui.js";

const GHOST_MS = 6000;
const HELD_MS = 30_000; // of a line that would move others while the person points at them
const canHover = matchMedia("(hover: hover)");
export const guard = new ButtonGuard();
export const selected = new Set(); // keys
export const failures = new Map(); // by key: {digest, words} of a decision on several requests that was refused
let drawn = []; // the entries as they are drawn
let from = null; // the key where a range of the selection begins

export const isRequest = (need) => need.kind === "request" && !need.ghost;
export const isDead = (need) => guard.isDead(need.key, performance.now());
export const optionsOf = (need) => (need.questions?.length === 1 && !need.questions[0].multiple ? need.questions[0].options : []);

// The order

/** The lines hold still while the person points at them or has one open: none moves, and new ones come last. */
function isHeld() {
  if (canHover.matches && document.querySelector(".need-list:hover") !== null) return true;
  return drawn.some(({ key }) => ui.opened.has(key) || isTyping(key));
}

export const isTyping = (key) => Boolean(ui.inputs.get(key)?.open);

/** Take the order anew, and return the entries, with those that have just passed. */
export function arrange() {
  const clock = performance.now();
  const held = isHeld();
  const known = new Map(state.needs.map((need) => [need.key, need]));
  for (const [key, ghost] of ui.ghosts) {
    const age = clock - ghost.at;
    if (known.has(key) || age > HELD_MS || (!held && age > (ghost.need.kind === "request" ? GHOST_MS : 0))) ui.ghosts.delete(key);
  }
  const isShown = ({ key }) => known.has(key) || ui.ghosts.has(key); // a passed one only if it was drawn before
  const before = drawn.filter(isShown).map(({ key }) => key);
  const keys = [...known.keys()];
  if (held) keys.splice(0, Infinity, ...before, ...keys.filter((key) => !before.includes(key)));
  for (const key of before) {
    if (!keys.includes(key)) keys.splice(keys.indexOf(before.slice(0, before.indexOf(key)).findLast((above) => keys.includes(above))) + 1, 0, key);
  }
  drawn = keys.map((key) => known.get(key) ?? { ...ui.ghosts.get(key).need, ghost: ui.ghosts.get(key) });
  for (const set of [ui.opened, selected]) for (const key of set) if (!known.has(key)) set.delete(key);
  // A server that has just begun has no requests yet.
  const over = state.loading ? [] : [...ui.inputs.keys()].filter((key) => !known.has(key));
  for (const key of over) ui.inputs.delete(key);
  if (over.length) keepInputs();
  for (const [key, { digest }] of failures) if (known.get(key)?.digest !== digest) failures.delete(key);
  return drawn;
}

/** Note which entries have gone, and ask who answered them. */
export function notePassed(before) {
  const now = new Set(state.needs.map((need) => need.key));
  for (const key of ui.ghosts.keys()) if (now.has(key)) ui.ghosts.delete(key);
  for (const need of before) {
    if (now.has(need.key)) continue;
    ui.ghosts.set(need.key, { need, words: need.kind === "request" ? "answered" : "done", at: performance.now() });
    setTimeout(ui.draw, GHOST_MS + 10);
  }
}

/** Take the words of the server about a request that is not open any more. */
export function settle(key, words) {
  const ghost = ui.ghosts.get(key);
  if (ghost !== undefined) ghost.words = words;
}

/** Tell the guard what is drawn. What is open moves the buttons below it; the person's own words do not. */
export function seeDrawn(list) {
  let above = "";
  const contents = list.map((need, place) => {
    const open = `${ui.opened.has(need.key) ? "o" : ""}${isTyping(need.key) ? "t" : ""}`;
    const content = JSON.stringify([need.digest, need.text, place, above, ui.opened.has(need.key)]);
    if (open) above += `${place}${open} `;
    return [need.key, content];
  });
  guard.see(new Map(contents), performance.now());
}

// Lines

export const lineOf = (key) => document.querySelector(`[data-need="${CSS.escape(key)}"]`);

export const focusedNeed = () => {
  const key = document.activeElement?.closest("[data-need]")?.dataset.need;
  return key === undefined ? null : (drawn.find((need) => need.key === key) ?? null);
};

export function focusNeed(key) {
  const line = lineOf(key);
  line?.focus({ preventScroll: true });
  line?.scrollIntoView({ block: "nearest" });
}

export function moveNeed(steps) {
  const items = [...document.querySelectorAll("[data-need]:not(.passed)")];
  const place = items.indexOf(document.activeElement?.closest("[data-need]"));
  const next = items[Math.min(Math.max(0, place + steps), items.length - 1)];
  if (next !== undefined) focusNeed(next.dataset.need);
}

export function unfold(need, open = !ui.opened.has(need.key)) {
  if (open) ui.opened.add(need.key);
  else ui.opened.delete(need.key);
  ui.drawNow();
  lineOf(need.key)?.scrollIntoView({ block: "nearest" });
}

/** Whether the line shows all words of the request: it is unfolded, or nothing is left out or cut off. */
function isWhole(need) {
  if (ui.opened.has(need.key)) return true;
  const text = lineOf(need.key)?.querySelector(".need-text");
  return Boolean(need.says_all && text && text.scrollWidth <= text.clientWidth && text.scrollHeight <= text.clientHeight + 1);
}

/** Go on to the next line after a decision, unfolded if this one was, unless the person is elsewhere by now. */
function advance(need, wasOpen) {
  const here = document.activeElement?.closest("[data-need]")?.dataset.need;
  if (document.activeElement !== document.body && here !== need.key) return;
  const place = drawn.findIndex(({ key }) => key === need.key);
  const isNext = (other) => !other.ghost && !ui.answered.has(other.key) && other.key !== need.key;
  const next = drawn.slice(place + 1).find(isNext) ?? drawn.slice(0, Math.max(0, place)).findLast(isNext);
  if (next && wasOpen && isRequest(next)) ui.opened.add(next.key);
  ui.drawNow();
  if (next) focusNeed(next.key);
  else document.getElementById("needs-title")?.focus();
}

// Decisions

/** Decide if nothing speaks against it: the guard, a change below the finger, or words that are not in sight. */
export async function press(need, action, words = {}) {
  const pressed = guard.release(need.key);
  const why = refusal(action, { need });
  if (why !== null) tell(`not possible: ${why}`, true);
  else if (pressed !== undefined && pressed !== need.digest) tell(`${need.key} changed while you pressed: look again`, true);
  else if (ui.answered.has(need.key)) tell(`${need.key} is being answered`);
  else if (isDead(need)) tell(`too early: ${need.key} has just appeared or changed; press again`, true);
  else if (action === "approve" && !isWhole(need)) {
    unfold(need, true);
    tell(`${need.key} is now shown in full; press again`);
  } else if (action === "deny" && need.has_changes) {
    const wasOpen = ui.opened.has(need.key);
    if (await deny(need, words)) advance(need, wasOpen);
  } else await answer(need, action, words);
}

/** Go on to the next line at once. A refusal is told at the line, which has kept what was typed. */
async function answer(need, action, words) {
  const wasOpen = ui.opened.delete(need.key);
  const input = ui.inputs.get(need.key);
  if (input) input.open = false;
  failures.delete(need.key);
  const deciding = decide(need, action, words);
  if (action !== "read") advance(need, wasOpen);
  const done = await deciding;
  if (done.ok) return;
  failures.set(need.key, { digest: need.digest, words: wordsOf(done) });
  ui.draw();
}

/** Deny a completion, with the drafts that the form has named. */
async function deny(need, words) {
  if (draftsFor(need).list === null) tell("the draft comments are not loaded yet; press again");
  else if (hasUnkept(need)) tell("a comment is not kept yet: keep it as a draft, or cancel it", true);
  else if ((await decide(need, "deny", { ...words, ...roundOf(need) })).ok) {
    afterDenial(need);
    return true;
  } else readDraftsAgain(need);
  return false;
}

// The selection

const isSelectable = (need) => !need.ghost && (need.kind === "request" ? need.equal !== null && need.buttons.includes("approve") : need.actions?.seen === null);
export const hasEquals = (need) => need.equal?.keys.length > 1;

/** Select a line or not; with `range` all lines since the last one. */
export function select(need, range = false) {
  if (!isSelectable(need)) tell(`${need.key} can only be answered alone`);
  else if (range && from !== null) {
    const places = [drawn.findIndex(({ key }) => key === from), drawn.indexOf(need)].sort((one, other) => one - other);
    for (const other of drawn.slice(Math.max(0, places[0]), places[1] + 1)) if (isSelectable(other)) selected.add(other.key);
  } else {
    if (!selected.delete(need.key)) selected.add(need.key);
    from = need.key;
  }
  ui.drawNow();
}

export function selectEqual(need) {
  if (!hasEquals(need)) tell(`nothing else asks for the same as ${need.key}`);
  for (const key of need.equal?.keys ?? []) selected.add(key);
  from = need.key;
  ui.drawNow();
}

export function clearSelection() {
  selected.clear();
  ui.drawNow();
}

export const selectedNeeds = () => drawn.filter((need) => !need.ghost && selected.has(need.key));

export const canSelect = isSelectable;

/** A key for a line of the queue. Return whether it was one. `decideAll`: opens the list of what is selected. */
export function needKey(need, key, decideAll) {
  const isLine = document.activeElement?.matches("[data-need]");
  if (need.ghost) return false;
  const options = optionsOf(need);
  const digit = "123456789".indexOf(key);
  if (digit >= 0 && options.length > 0) {
    if (digit < options.length) press(need, "answer", { answers: [String(digit + 1)] });
    else tell(`${need.key} has ${options.length} options`);
  } else if (key === keyOf("read") && "read" in (need.actions ?? {})) press(need, "read");
  else if (key === "x" || key === "X") select(need, key === "X");
  else if (key === "=") selectEqual(need);
  else if (key === "Enter" && isLine) unfold(need);
  else if (key === "Escape" && (ui.opened.has(need.key) || selected.size > 0)) {
    if (ui.opened.has(need.key)) unfold(need, false);
    else clearSelection();
    focusNeed(need.key);
  } else return decisionKey(need, decisionOf(key), decideAll);
  return true;
}

function decisionKey(need, name, decideAll) {
  if (name === undefined || need.kind !== "request") return false;
  if (["approve", "deny"].includes(name) && selected.size > 1 && selected.has(need.key)) decideAll(name);
  else if (name === "approve") press(need, name);
  else begin(name, { need });
  return true;
}
