// The region of what needs a person: requests with their buttons, then failed messages, stale sessions and troubles.

import { html, live, nothing, repeat } from "./vendor/lit/lit.js";
import { actionOf, begin, carryOut, decide, decisionOf, keyOf, openInput, refusal } from "./acts.js";
import { ButtonGuard } from "./guard.js";
import { afterDenial, changesBeside, draftsFor, forgetDrafts, hasUnkept, isUnfolded, keepOnly, readDraftsAgain, roundOf } from "./proposals.js";
import { nowS, state } from "./state.js";
import { go, sessionPath, tell, ui } from "./ui.js";
import { clock, span } from "./words.js";

const SHOWN_LINES = 8;
const LOOKS = { message: "messages", failed: "peek", done: "peek" }; // the tab that tells most
const GHOST_MS = 6000;
export const guard = new ButtonGuard();
let wake = 0;

const isDone = (need) => need.kind === "done";
const urgentNeeds = () => state.needs.filter((need) => !isDone(need));

/** The entries in their places, with those that somebody else has just answered. */
function entries() {
  const list = [...state.needs];
  for (const [key, ghost] of ui.ghosts) {
    if (!list.some((need) => need.key === key)) list.splice(Math.min(ghost.place, list.length), 0, { ...ghost.need, ghost });
  }
  return list;
}

/** Note which requests have gone, and ask who answered them. */
export function notePassed(before) {
  const now = new Set(state.needs.map((need) => need.key));
  for (const key of ui.ghosts.keys()) if (now.has(key)) ui.ghosts.delete(key);
  before.forEach((need, place) => {
    if (need.kind !== "request" || now.has(need.key)) return;
    const ghost = { need, place, words: "answered", at: performance.now() };
    ui.ghosts.set(need.key, ghost);
    ui.inputs.delete(need.key);
    setTimeout(() => {
      if (ui.ghosts.get(need.key) === ghost) ui.ghosts.delete(need.key);
      ui.draw();
    }, GHOST_MS);
  });
}

/** Take the words of the server about a request that is not open any more. */
export function settle(key, words) {
  const ghost = ui.ghosts.get(key);
  if (ghost !== undefined) ghost.words = words;
}

const isDead = (need) => guard.isDead(need.key, performance.now());
const isWhole = (need) => ui.opened.has(need.key) || (need.lines ?? []).length <= SHOWN_LINES;

/** Decide if nothing speaks against it: the guard, a change below the finger, or words that are not in sight. */
function press(need, action, words = {}) {
  const pressed = guard.release(need.key);
  const why = refusal(action, { need });
  if (why !== null) tell(`not possible: ${why}`, true);
  else if (pressed !== undefined && pressed !== need.digest) tell(`${need.key} changed while you pressed: look again`, true);
  else if (isDead(need)) tell(`too early: ${need.key} has just appeared or changed; press again`, true);
  else if (action === "approve" && !isWhole(need)) {
    ui.opened.add(need.key);
    tell(`${need.key} is now shown in full; press again`);
  } else if (action === "deny" && need.has_changes) deny(need, words);
  else decide(need, action, words);
}

/** Deny a completion, with the drafts that the form has named. */
async function deny(need, words) {
  if (draftsFor(need).list === null) tell("the draft comments are not loaded yet; press again");
  else if (hasUnkept(need)) tell("a comment is not kept yet: keep it as a draft, or cancel it", true);
  else if (await decide(need, "deny", { ...words, ...roundOf(need) })) afterDenial(need);
  else readDraftsAgain(need);
}

/** A key for a request. Return whether it was one. */
export function needKey(need, key) {
  const digit = "123456789".indexOf(key);
  if (need.ghost) return false;
  if (digit >= 0 && (need.options ?? []).length > 0) {
    if (digit < need.options.length) press(need, "answer", { answers: [String(digit + 1)] });
    else tell(`${need.key} has ${need.options.length} options`);
    return true;
  }
  if (key === keyOf("read") && "read" in (need.actions ?? {})) {
    press(need, "read");
    return true;
  }
  const name = decisionOf(key);
  if (name === undefined || need.kind !== "request") return false;
  if (name === "approve") press(need, name);
  else begin(name, { need });
  return true;
}

export const focusedNeed = () => {
  const key = document.activeElement?.closest("[data-need]")?.dataset.need;
  return key === undefined ? null : (entries().find((need) => need.key === key) ?? null);
};

/** Show a request, on another page if this one has no place for it, and focus it. */
export function revealNeed(need) {
  const element = () => document.querySelector(`[data-need="${CSS.escape(need.key)}"]`);
  if (!element()?.offsetParent) go(need.has_changes ? sessionPath(need.session_id, "changes") : "#/");
  setTimeout(() => element()?.focus());
}

export function focusNeed(key) {
  document.querySelector(`[data-need="${CSS.escape(key)}"]`)?.focus();
}

export function moveNeed(steps) {
  const items = [...document.querySelectorAll("[data-need]")];
  const place = items.indexOf(document.activeElement?.closest("[data-need]"));
  items[Math.min(Math.max(0, place + steps), items.length - 1)]?.focus();
}

function title() {
  const urgent = urgentNeeds().length;
  if (urgent > 0) return `Needs you: ${urgent}`;
  if (state.quietSince == null) return state.loading ? "Needs you: loading" : "Nothing needs you";
  return `Nothing needs you since ${clock(state.quietSince)} (${span(nowS() - state.quietSince)})`;
}

export function needsRegion() {
  const list = entries();
  const drawn = list.map((need, place) => [
    need.key,
    // What is open above moves the buttons; the person's own words below them do not.
    JSON.stringify([need.digest, need.text, place, list.slice(0, place).map(({ key }) => [ui.inputs.has(key), ui.opened.has(key)])]),
  ]);
  guard.see(new Map(drawn), performance.now());
  clearTimeout(wake);
  const ms = guard.nextMs(performance.now());
  if (ms > 0) wake = setTimeout(ui.drawNow, ms + 5);
  const own = besideChanges();
  keepOnly(new Set(state.needs.map(({ key }) => key)), own?.key);
  const urgent = list.filter((need) => !isDone(need) && need.key !== own?.key);
  const done = list.filter(isDone);
  return html`<section class="needs" aria-labelledby="needs-title" data-count=${urgentNeeds().length}>
    <h2 id="needs-title" tabindex="-1" class=${urgentNeeds().length ? "urgent" : "calm"}>${title()}</h2>
    ${own === null ? nothing : html`<p class="hint">${own.key} stands above the changes.</p>`}
    ${urgent.length === 0 ? nothing : html`<ul class="need-list">${repeat(urgent, (need) => need.key, needItem)}</ul>`}
    ${done.length === 0
      ? nothing
      : html`<h2 class="done">Done, not seen yet: ${done.length}</h2>
          <ul class="need-list">${repeat(done, (need) => need.key, needItem)}</ul>`}
  </section>`;
}

/** The proposed completion that stands beside the tab with the changes; null: there is none. */
function besideChanges() {
  const { page, session, tab } = ui.route;
  if (page !== "session" || tab !== "changes") return null;
  return entries().find((need) => need.has_changes && need.session_id === session) ?? null;
}

/** A proposed completion, with the buttons that answer it, above the changes of its session. */
export function needBesideChanges() {
  const need = besideChanges();
  return need === null ? nothing : html`<ul class="need-list above-changes">${repeat([need], ({ key }) => key, needItem)}</ul>`;
}

function needItem(need) {
  const age = need.since ? span(nowS() - need.since) : "";
  const name = need.kind === "request" || need.kind === "message" ? need.key : need.kind;
  const label = need.session_id && state.rows.has(need.session_id)
    ? html`<a class="need-label" href=${sessionPath(need.session_id)}>${need.label}</a>`
    : html`<span class="need-label">${need.label}</span>`;
  return html`<li
    data-need=${need.key}
    data-kind=${need.kind}
    data-dead=${need.kind === "request" && isDead(need)}
    tabindex="-1"
    class="need${need.ghost ? " passed" : ""}${isUnfolded(need) ? " unfolded" : ""}"
    aria-label="${name} of ${need.label}"
  >
    <div class="need-head">
      <span class="need-key">${name}</span>${label}<span class="need-age">${age ? html`<span class="unseen">since </span>${age}` : nothing}</span>
      ${need.workspace ? html`<span class="tag">${need.workspace}</span>` : nothing}
    </div>
    <p class="need-text">${need.text}</p>
    ${need.ghost ? ghostLine(need.ghost) : html`${body(need)} ${need.has_changes && need.key !== besideChanges()?.key ? changesBeside(need) : nothing} ${buttons(need)} ${input(need)}`}
  </li>`;
}

function ghostLine(ghost) {
  return html`<p class="answered">${ghost.words} ${span((performance.now() - ghost.at) / 1000)} ago</p>`;
}

function body(need) {
  const lines = need.lines ?? [];
  const open = ui.opened.has(need.key);
  if (lines.length === 0) return nothing;
  const some = open ? lines : lines.slice(0, SHOWN_LINES);
  const hidden = lines.length - some.length;
  const toggle = () => {
    if (!ui.opened.delete(need.key)) ui.opened.add(need.key);
    ui.drawNow();
  };
  return html`<div class="need-body">
    <pre class="quoted">${some.map(bodyLine)}</pre>
    ${hidden > 0 || (open && lines.length > SHOWN_LINES)
      ? html`<button class="plain" aria-expanded=${open} @click=${toggle}>
          ${open ? "Show less" : `Show all (${hidden} more lines)`}
        </button>`
      : nothing}
  </div>`;
}

/** A line of a request. `|-` and `|+` are bars of the server: the lines of an agent cannot begin with them. */
function bodyLine(line) {
  const kind = { "-": "removed", "+": "added" }[line.match(/^ *\|([-+])/)?.[1]] ?? "";
  return html`<span class=${kind}>${line}\n</span>`;
}

function button(need, action, label, press_, kind = "") {
  const key = kind === "option" ? "" : keyOf(action);
  const why = refusal(action, { need });
  const dead = isDead(need);
  const down = () => guard.press(need.key, need.digest);
  return html`<button
    class="act ${kind}"
    data-act=${action}
    aria-disabled=${why !== null || dead}
    title=${why ?? nothing}
    @pointerdown=${down}
    @click=${press_}
  >
    ${label}${key ? html`<kbd aria-hidden="true">${key}</kbd>` : nothing}
  </button>`;
}

/** A message is marked by its entry, everything else is done to the session. */
function entryButton(need, name) {
  if (name === "read") return button(need, name, "Mark as read", () => press(need, name));
  return html`<button class="act" data-act=${name} @click=${() => carryOut(name, need.session_id)}>
    ${actionOf(name)?.title ?? name}
  </button>`;
}

function buttons(need) {
  if (need.kind !== "request") {
    return need.session_id
      ? html`<div class="buttons">${Object.entries(need.actions ?? {})
          .filter(([, why]) => why === null)
          .map(([name]) => entryButton(need, name))}<button class="act" @click=${() => go(sessionPath(need.session_id, LOOKS[need.kind] ?? "why"))}>Look</button></div>`
      : nothing;
  }
  const options = need.options ?? [];
  const questions = need.questions ?? [];
  const isQuestion = actionOf("answer") && refusal("answer", { need }) === null;
  const why = refusal("approve", { need });
  return html`<div class="buttons ${isQuestion ? "options" : ""}">
    ${isQuestion
      ? html`${options.map((option, place) =>
            button(need, "answer", html`<b>${place + 1}</b> ${optionText(option)}`, () => press(need, "answer", { answers: [String(place + 1)] }), "option"))}
          ${button(need, "answer", questions.length > 1 ? `Answer ${questions.length} questions` : "Other answer", () => openInput(need, "answer"))}`
      : button(need, "approve", "Approve", () => press(need, "approve"), "go")}
    ${button(need, "deny", "Deny…", () => begin("deny", { need }), "stop")}
    ${why !== null && !isQuestion ? html`<span class="why-not">${why}</span>` : nothing}
  </div>`;
}

const optionText = (option) => (typeof option === "string" ? option : (option.label ?? ""));

function input(need) {
  const open = ui.inputs.get(need.key);
  if (open === undefined) return nothing;
  const close = () => {
    ui.inputs.delete(need.key);
    forgetDrafts(need);
    ui.drawNow();
    focusNeed(need.key);
  };
  const submit = (event) => {
    event.preventDefault();
    if (open.kind === "deny") press(need, "deny", { text: open.text.trim() });
    else if (open.answers.length === questions.length && open.answers.every((answer) => answer?.trim())) press(need, "answer", { answers: open.answers });
    else tell("every question needs an answer", true);
  };
  const keys = (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  const questions = need.questions?.length ? need.questions : [{ question: need.text, options: [] }];
  const drafts = open.kind === "deny" && need.has_changes ? draftsFor(need).list ?? [] : [];
  const fields = open.kind === "deny"
    ? html`<label>Why not? The agent reads it; it may be empty.
        <textarea rows="2" maxlength=${drafts.length ? 4_000 : 10_000} .value=${live(open.text)} @input=${(e) => (open.text = e.target.value)}></textarea></label>
        ${draftWords(need)}`
    : questions.map((question, place) => questionField(need, question, open, place));
  return html`<form class="need-input" @submit=${submit} @keydown=${keys}>
    ${fields}
    <div class="buttons">
      <button class="act ${open.kind === "deny" ? "stop" : "go"}" data-act="submit" aria-disabled=${isDead(need)}
        @pointerdown=${() => guard.press(need.key, need.digest)}>${open.kind === "deny" ? denyLabel(drafts) : "Answer"}</button>
      <button type="button" class="act" @click=${close}>Cancel</button>
    </div>
  </form>`;
}

const comments = (count) => (count === 1 ? "1 draft comment" : `${count} draft comments`);

const denyLabel = (drafts) => (drafts.length ? `Deny with ${comments(drafts.length)}` : "Deny");

/** What a denial of a completion sends besides the words. */
function draftWords(need) {
  if (!need.has_changes) return nothing;
  const { list, problem } = draftsFor(need);
  if (problem) return html`<p class="problem">Your draft comments cannot be read: ${problem}</p>`;
  if (list === null) return html`<p class="hint">Looking for your draft comments.</p>`;
  if (list.length === 0) return html`<p class="hint">You have no draft comments about the changes.</p>`;
  return html`<p class="hint">Your ${comments(list.length)} about the changes ${list.length === 1 ? "goes" : "go"} with it, as one round.</p>`;
}

function questionField(need, question, open, place) {
  const options = question.options ?? [];
  const set = (value) => {
    open.answers[place] = value;
    ui.drawNow();
  };
  const toggled = (number, on) => {
    const before = (open.answers[place] ?? "").split(",").filter((part) => /^[0-9]+$/.test(part));
    const chosen = new Set(before);
    if (on) chosen.add(String(number));
    else chosen.delete(String(number));
    set([...chosen].sort().join(","));
  };
  const name = `${need.key}-${place}`;
  return html`<fieldset>
    <legend>${question.question}</legend>
    ${options.map((option, index) => html`<label class="choice"><input
        type=${question.multiple ? "checkbox" : "radio"} name=${name}
        @change=${(e) => (question.multiple ? toggled(index + 1, e.target.checked) : set(String(index + 1)))}>${optionText(option)}</label>`)}
    <label>${options.length ? "Or in words" : "Your answer"}
      <textarea rows="2" maxlength="10000" @input=${(e) => set(e.target.value)}></textarea></label>
  </fieldset>`;
}
