// The forms below a line of the queue: the reason of a denial, and the answers to questions.

import { html, live, nothing } from "./vendor/lit/lit.js";
import { draftsFor, forgetDrafts } from "./proposals.js";
import { focusNeed, guard, isDead, isTyping, press } from "./queue.js";
import { keepInputs, tell, ui } from "./ui.js";

/** What the person has typed for a request. It is kept when its form is closed. */
export function inputOf(need) {
  const known = ui.inputs.get(need.key) ?? { open: false, text: "", words: [], picks: [] };
  ui.inputs.set(need.key, known);
  return known;
}

/** Enter sends, with Shift it begins a line; Escape closes the form. */
const keysOf = (submit, close) => (event) => {
  if (event.isComposing) return;
  if (event.key === "Escape") {
    event.stopPropagation();
    close();
  } else if (event.key === "Enter" && !event.shiftKey && event.target.matches("textarea, input")) submit(event);
};

const down = (need) => () => guard.press(need.key, need.digest);

export function denyForm(need) {
  if (!isTyping(need.key)) return nothing;
  const input = inputOf(need);
  const drafts = need.has_changes ? draftsFor(need).list ?? [] : [];
  const close = () => {
    input.open = false;
    forgetDrafts(need);
    ui.drawNow();
    focusNeed(need.key);
  };
  const submit = (event) => {
    event.preventDefault();
    press(need, "deny", { text: input.text.trim() });
  };
  return html`<form class="need-input" @submit=${submit} @keydown=${keysOf(submit, close)}>
    <label>Why not? The agent reads it; it may be empty.
      <textarea rows="2" maxlength=${drafts.length ? 4_000 : 10_000} .value=${live(input.text)} @input=${(e) => { input.text = e.target.value; keepInputs(); }}></textarea></label>
    ${draftWords(need)}
    <div class="buttons">
      <button class="act small stop" data-act="submit" aria-disabled=${isDead(need)} @pointerdown=${down(need)}>${drafts.length ? `Deny with ${comments(drafts.length)}` : "Deny"}</button>
      <button type="button" class="act small" @click=${close}>Close</button>
      <span class="hint for-keys">Enter sends, Shift-Enter begins a line, Esc keeps what you typed</span>
    </div>
  </form>`;
}

const comments = (count) => (count === 1 ? "1 draft comment" : `${count} draft comments`);

/** What a denial of a completion sends besides the words. */
function draftWords(need) {
  if (!need.has_changes) return nothing;
  const { list, problem } = draftsFor(need);
  if (problem) return html`<p class="problem">Your draft comments cannot be read: ${problem}</p>`;
  if (list === null) return html`<p class="hint">Looking for your draft comments.</p>`;
  if (list.length === 0) return html`<p class="hint">You have no draft comments about the changes.</p>`;
  return html`<p class="hint">Your ${comments(list.length)} about the changes ${list.length === 1 ? "goes" : "go"} with it, as one round.</p>`;
}

/** The questions of a request with their options. A single choice is an answer; other answers are sent together. */
export function answerForm(need) {
  const input = inputOf(need);
  const questions = need.questions;
  const answers = () => questions.map((_, place) => input.words[place]?.trim() || (input.picks[place] ?? []).join(","));
  const submit = (event) => {
    event.preventDefault();
    if (answers().every(Boolean)) press(need, "answer", { answers: answers() });
    else tell("every question needs an answer", true);
  };
  const close = () => {
    ui.opened.delete(need.key);
    ui.drawNow();
    focusNeed(need.key);
  };
  const isDirect = questions.length === 1 && !questions[0].multiple;
  return html`<form class="need-input need-questions" @submit=${submit} @keydown=${keysOf(submit, close)}>
    ${questions.map((question, place) => questionField(need, question, input, place, isDirect))}
    <div class="buttons"><button class="act small ${isDirect && questions[0].options.length ? "" : "go"}" data-act="submit" aria-disabled=${isDead(need)} @pointerdown=${down(need)}>
      ${questions.length > 1 ? `Answer ${questions.length} questions` : "Answer"}</button></div>
  </form>`;
}

function questionField(need, question, input, place, isDirect) {
  const { options } = question;
  const pick = (number, on) => {
    const before = question.multiple ? input.picks[place] ?? [] : [];
    input.picks[place] = on ? [...before, number].sort((one, other) => one - other) : before.filter((other) => other !== number);
    keepInputs();
    ui.drawNow();
  };
  const words = (option) => html`<span>${option.label}${option.words ? html`: <span class="hint">${option.words}</span>` : nothing}</span>`;
  const choice = (option, index) => html`<label class="choice"><input type=${question.multiple ? "checkbox" : "radio"} name="${need.key}-${place}"
      .checked=${live((input.picks[place] ?? []).includes(index + 1))} @change=${(e) => pick(index + 1, e.target.checked)}>${words(option)}</label>`;
  const answer = (option, index) => html`<button type="button" class="act small option" data-act="answer" aria-disabled=${isDead(need)} @pointerdown=${down(need)}
      @click=${() => press(need, "answer", { answers: [String(index + 1)] })}><b>${index + 1}</b> ${words(option)}</button>`;
  return html`<fieldset>
    <legend>${question.question}</legend>
    ${options.map(isDirect ? answer : choice)}
    <label>${options.length ? "Or in words" : "Your answer"}
      <textarea rows="1" maxlength="10000" .value=${live(input.words[place] ?? "")} @input=${(e) => { input.words[place] = e.target.value; keepInputs(); }}></textarea></label>
  </fieldset>`;
}
