// A line of the queue: what needs the person in one sentence, with its buttons, and in full below it when it is unfolded.

import { html, live, nothing } from "./vendor/lit/lit.js";
import { actionOf, begin, carryOut, keyOf, refusal } from "./acts.js";
import { answerForm, denyForm } from "./need_forms.js";
import { openMenu } from "./need_menu.js";
import { changesBeside, isUnfolded } from "./proposals.js";
import { canSelect, failures, focusNeed, guard, isDead, isRequest, optionsOf, press, select, selected, selectEqual, unfold } from "./queue.js";
import { nowS, state } from "./state.js";
import { sessionPath, ui } from "./ui.js";
import { clock, span } from "./words.js";

const LOOKS = { message: "messages", failed: "peek", done: "peek" }; // the tab that tells most
const FITS = 20; // cells of the options that stand in a narrow line
const FITS_WIDE = 44;

/** `isFirst`: of its equals. `hasPage`: its changes are shown below it. */
export function needItem(need, { isFirst = false, hasPage = false } = {}) {
  const name = need.kind === "request" || need.kind === "message" ? need.key : need.kind;
  const isOpen = !need.ghost && (hasPage || ui.opened.has(need.key));
  const toggle = (event) => {
    if (need.ghost || hasPage || event.target.closest("a, button, input, label") || getSelection()?.toString()) return;
    unfold(need);
    focusNeed(need.key);
  };
  return html`<li
    data-need=${need.key} data-kind=${need.kind} data-word=${need.word} data-dead=${need.kind === "request" && isDead(need)} tabindex="-1"
    class="need${need.ghost ? " passed" : ""}${isOpen ? " open" : ""}${selected.has(need.key) ? " selected" : ""}${isUnfolded(need) ? " unfolded" : ""}"
    aria-label="${name} of ${need.label}">
    <div class="need-line" @click=${toggle}>
      ${check(need, hasPage)}
      <span class="need-meta"><span class="need-key">${name}</span><span class="need-kind">${need.word}</span>${label(need)}
        ${need.workspace ? html`<span class="tag">${need.workspace}</span>` : nothing}
        <span class="need-age">${need.since ? html`<span class="unseen">since </span>${span(nowS() - need.since)}` : nothing}</span></span>
      ${sentence(need, isOpen, hasPage)}
      ${need.ghost ? nothing : html`${isFirst && !selected.has(need.key) ? equalButton(need) : nothing}<div class="buttons">${isRequest(need) ? answerButtons(need) : lookButtons(need)}${more(need)}</div>`}
    </div>
    ${failures.has(need.key) && !need.ghost ? html`<p class="problem">not done: ${failures.get(need.key).words}</p>` : nothing}
    ${need.ghost ? nothing : html`${isOpen ? body(need) : nothing}${need.has_changes && !hasPage && isOpen ? changesBeside(need) : nothing}${denyForm(need)}`}
  </li>`;
}

const label = (need) => (need.session_id && state.rows.has(need.session_id)
  ? html`<a class="need-label" href=${sessionPath(need.session_id)} title=${need.label}>${need.label}</a>`
  : html`<span class="need-label" title=${need.label}>${need.label}</span>`);

function check(need, hasPage) {
  if (hasPage) return nothing;
  if (!canSelect(need)) return html`<span class="need-check"></span>`;
  let range = false; // a change event does not tell
  return html`<label class="need-check"><span class="unseen">Select ${need.key}</span><input type="checkbox" .checked=${live(selected.has(need.key))}
    @click=${(event) => (range = event.shiftKey)} @change=${() => select(need, range)}></label>`;
}

/** The sentence unfolds the line. A question then stands below it, with its options. */
function sentence(need, isOpen, hasPage) {
  if (need.ghost) return html`<p class="need-text"><s>${need.text}</s> <span class="answered">${need.ghost.words} ${span((performance.now() - need.ghost.at) / 1000)} ago</span></p>`;
  if (hasPage) return html`<p class="need-text"></p>`;
  return html`<button class="need-open" aria-expanded=${isOpen} title=${isOpen ? nothing : need.text} @click=${(event) => {
    event.stopPropagation(); // the line unfolds too
    unfold(need);
    focusNeed(need.key);
  }}><span aria-hidden="true">${isOpen ? "▾" : "▸"}</span>${isOpen && need.questions.length ? html`<span class="hint">Hide</span>` : html`<span class="need-text">${need.text}</span>`}</button>`;
}

function body(need) {
  const lines = need.lines ?? [];
  const isQuestion = need.buttons.includes("answer");
  return html`<div class="need-body">
    ${lines.length ? html`<pre class="quoted">${lines.map(bodyLine)}</pre>` : nothing}
    ${isQuestion ? answerForm(need) : lines.length ? nothing : html`<p>${need.text}</p>`}
    ${need.since && !isRequest(need) ? html`<p class="hint">Since ${clock(need.since)}, ${span(nowS() - need.since)} ago</p>` : nothing}
  </div>`;
}

/** A line of a request. `|-` and `|+` are bars of the server: the lines of an agent cannot begin with them. */
export function bodyLine(line) {
  const kind = { "-": "removed", "+": "added" }[line.match(/^ *\|([-+])/)?.[1]] ?? "";
  return html`<span class=${kind}>${line}\n</span>`;
}

// Buttons

function equalButton(need) {
  const { keys, words } = need.equal;
  return html`<button class="act small equal" data-act="equal" title=${words} @click=${() => selectEqual(need)}><span class="wide-only">Select </span>${keys.length} equal</button>`;
}

/** The command behind a click, and its key. */
const titleOf = (need, action) => `${need.commands?.[action] ?? ""}${keyOf(action) ? ` (${keyOf(action)})` : ""}`;

/** A button of a decision. `words`: the answers. */
function button(need, action, title, act, look = "") {
  const why = refusal(action, { need });
  return html`<button class="act small ${look}" data-act=${action} aria-disabled=${why !== null || ui.answered.has(need.key) || isDead(need)} title=${why ?? titleOf(need, action)}
    @pointerdown=${() => guard.press(need.key, need.digest)} @click=${act}>${title}</button>`;
}

/** The width of a text: a character of East Asia takes two cells. */
const cells = (text) => [...text].reduce((sum, one) => sum + (one > "\u2e7f" ? 2 : 1), 0);

function answerButtons(need) {
  const options = optionsOf(need);
  const size = options.reduce((sum, { label: text }) => sum + cells(text) + 4, 0);
  const place = options.length === 0 || size > FITS_WIDE || ui.opened.has(need.key) ? null : size > FITS ? "fits-wide" : "fits";
  const option = ({ label: text }, index) => button(need, "answer", html`<b>${index + 1}</b> ${text}`, () => press(need, "answer", { answers: [String(index + 1)] }), `option ${place}`);
  const known = {
    approve: () => button(need, "approve", "Approve", () => press(need, "approve"), "go"),
    deny: () => button(need, "deny", "Deny…", () => begin("deny", { need }), "stop"),
    answer: () => html`${place === null ? nothing : options.map(option)}${place === "fits" || ui.opened.has(need.key) ? nothing
      : button(need, "answer", "Answer…", () => begin("answer", { need }), `go${place === "fits-wide" ? " narrow" : ""}`)}`,
    attach: () => (refusal("attach", { need }) === null ? sessionButton(need, "attach", () => begin("attach", { need }), "Attach") : nothing),
  };
  const why = need.buttons.includes("approve") || need.buttons.includes("answer") ? null : refusal("approve", { need });
  return html`${need.buttons.map((name) => known[name]?.() ?? nothing)}${why === null ? nothing : html`<span class="why-not">${why}</span>`}`;
}

const sessionButton = (need, name, act, title = actionOf(name)?.title ?? name) => html`<button class="act small" data-act=${name} title=${titleOf(need, name)} @click=${act}>${title}</button>`;

/** The buttons of what is no request. A message is marked by its entry, everything else is done to the session. */
function lookButtons(need) {
  const act = (name) => (name === "read" ? button(need, name, "Mark as read", () => press(need, name)) : sessionButton(need, name, () => carryOut(name, need.session_id)));
  return html`${need.buttons.filter((name) => refusal(name, { need }) === null).map(act)}
    ${need.session_id ? html`<a class="act small" data-act="see" href=${sessionPath(need.session_id, LOOKS[need.kind] ?? "why")}>See</a>` : nothing}`;
}

const more = (need) => html`<button class="act small more" data-act="more" aria-label="More for ${need.key}" aria-haspopup="true" @click=${(event) => openMenu(need, event.currentTarget)}>⋯</button>`;
