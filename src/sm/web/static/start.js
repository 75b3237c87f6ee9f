// The sheet that starts an agent. The server says what its fields have, know and lack (board/spawn_sheet.py): here it is
// drawn, and what the person types is kept until an agent has started with it, also over a reload.

import { html, live, nothing, repeat } from "./vendor/lit/lit.js";
import { carryOut, commandOf, copy, wordsOf } from "./acts.js";
import { post } from "./api.js";
import { clearFiles, counted, files, refuse, release, START, takesNone, uploaded, withFiles } from "./files.js";
import { state } from "./state.js";
import { go, sessionPath, ui } from "./ui.js";

const KEPT = "sm.start";
const ASK_MS = 150;
const TASK_SENT_MAX = 12_000; // of a longer task the server needs to know only that it is too long
const OPTION_MAX = 70;

let given = read(); // what the person has changed, by the name of the field
let sheet = null; // the newest answer
let trouble = ""; // why there is no newer one
let refused = null; // what the daemon has said against the last start: {field, words}
let isTried = false; // a start has been asked for: what is missing is a problem from then on
let isBusy = false; // a start is under way, also while the sheet is closed
let isOpenMore = false;
let told = ""; // the words about a start after which the sheet stays open
let asked = 0;
let timer = 0;

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT)) ?? {};
  } catch {
    return {};
  }
}

function keep(values) {
  given = values;
  sessionStorage.setItem(KEPT, JSON.stringify(given));
}

/** Begin with what was typed before. The facts are asked for anew. */
export function openStart() {
  [sheet, trouble, refused, isTried] = [null, "", null, false];
  ask();
  told = "";
}

async function ask() {
  clearTimeout(timer);
  const mine = ++asked;
  const fields = { ...given, ...(given.prompt === undefined ? {} : { prompt: given.prompt.slice(0, TASK_SENT_MAX) }) };
  try {
    const answer = await post("/start-sheet", { workspace: state.workspace || null, fields });
    if (mine === asked) [sheet, trouble] = [answer.trouble && sheet ? sheet : answer, answer.trouble]; // it has no facts then
  } catch (error) {
    if (mine === asked) trouble = error.message;
  }
  ui.drawNow();
}

function askSoon() {
  clearTimeout(timer);
  timer = setTimeout(ask, ASK_MS);
}

function change(name, value) {
  keep({ ...given, [name]: value });
  if (refused?.field === name || refused?.field === "") refused = null;
  askSoon();
  ui.drawNow();
}

const problemOf = (field) => {
  if (refused?.field === field.name) return refused.words;
  return isTried || field.value ? field.problem : "";
};

function focus(name) {
  ui.drawNow();
  document.querySelector(`.start [name="${CSS.escape(name)}"]`)?.focus();
}

function close() {
  ui.dialog = null;
  ui.drawNow();
}

function clear() {
  keep({});
  clearFiles(START);
  openStart();
  focus("prompt");
}

async function start(another) {
  if (isBusy) return;
  told = "";
  [isBusy, isTried, refused] = [true, true, null];
  ui.drawNow();
  const attached = await uploaded(START);
  if (ui.dialog?.view !== startView) {
    isBusy = false; // it was closed while a file was uploaded
    return;
  }
  let sent;
  do {
    sent = given;
    await ask();
  } while (given !== sent); // the person types on
  const wrong = sheet?.fields.find((field) => field.problem);
  if (sheet === null || trouble || wrong) {
    isBusy = false;
    if (wrong?.rare) isOpenMore = true;
    focus(wrong?.name ?? "prompt");
    return;
  }
  if (attached.problem || (attached.ids.length && sheet.takes_files === false)) {
    isBusy = false;
    if (attached.problem) refused = { field: "", words: `Not started: ${attached.problem}.` };
    focus(attached.problem ? "prompt" : "agent_type");
    return;
  }
  if (attached.ids.length && !given.prompt?.trim()) {
    isBusy = false;
    refused = { field: "prompt", words: "Write what the agent does with the files." };
    focus("prompt");
    return;
  }
  const { again } = sheet;
  const fields = { ...sheet.values, ...(given.prompt?.trim() ? { prompt: given.prompt } : {}) };
  const done = await carryOut("spawn", null, { workspace: null, fields, ...(attached.ids.length ? { files: attached.ids } : {}) });
  isBusy = false;
  if (!done.ok) {
    const place = sheet.fields.find(({ name }) => name === done.field);
    refused = { field: place?.name ?? "", words: wordsOf(done) };
    if (place?.rare) isOpenMore = true;
    refuse(START, done.words);
    focus(refused.field || "prompt");
    return;
  }
  release(START, attached.entries);
  const isSame = given === sent; // else it is the input for another agent by now
  if (isSame) keep(another ? again : {});
  isTried = false;
  if (ui.dialog?.view !== startView) return;
  if (isSame && !another) {
    close();
    if (done.session) go(sessionPath(done.session));
    return;
  }
  await ask();
  told = `Started ${[fields.agent_type, fields.name].filter(Boolean).join(" ")}. The fields are for another agent now.`;
  focus("prompt");
}

// The fields

const described = (field) => (problemOf(field) ? `problem-${field.name}` : field.notes.length ? `notes-${field.name}` : nothing);
const wrong = (field) => (problemOf(field) ? "true" : nothing);
const valueOf = (field) => given[field.name] ?? field.value;
const chosenOf = (field) => (field.choices.some(({ value }) => value === given[field.name]) ? given[field.name] : field.value);
const short = (text) => (text.length > OPTION_MAX ? `${text.slice(0, OPTION_MAX)}…` : text);

function task(field) {
  return html`<textarea class="wide" name="prompt" rows="4" data-first spellcheck="true" placeholder="What the agent does. Without a task it waits for a message."
      aria-invalid=${wrong(field)} aria-describedby=${described(field)} .value=${live(valueOf(field))}
      @input=${(event) => change("prompt", event.target.value)}></textarea>`;
}

function typeChoice(field) {
  const known = field.suggestions;
  const value = known.some((kind) => kind.value === given[field.name]) ? given[field.name] : field.value;
  return html`<select class="wide" name=${field.name} aria-invalid=${wrong(field)} aria-describedby=${described(field)}
      @change=${(event) => change(field.name, event.target.value)}>
    ${known.some((kind) => kind.value === value) ? nothing : html`<option value=${value} selected>${value || field.hint || "Choose one"}</option>`}
    ${known.map((kind) => html`<option value=${kind.value} ?selected=${kind.value === value}>${kind.value}${kind.words ? ` - ${short(kind.words)}` : ""}</option>`)}</select>`;
}

function choice(field) {
  if (field.choices.length === 2) {
    const [, { value, title }] = field.choices;
    return html`<label class="check"><input type="checkbox" name=${field.name} .checked=${live(chosenOf(field) === value)} aria-describedby=${described(field)}
      aria-invalid=${wrong(field)} @change=${(event) => change(field.name, event.target.checked ? value : "")}> Works in ${title}</label>`;
  }
  return html`<label for="start-${field.name}">${field.title}</label><select class="wide" id="start-${field.name}" name=${field.name} aria-invalid=${wrong(field)} aria-describedby=${described(field)}
      @change=${(event) => change(field.name, event.target.value)}>
    ${field.choices.map((each) => html`<option value=${each.value} ?selected=${each.value === chosenOf(field)}>${each.title}</option>`)}</select>`;
}

function suggestionsOf(field) {
  if (field.kind !== "session") return field.suggestions;
  return [...state.rows.values()].filter((row) => row.live).map((row) => ({ value: row.label, words: "" }));
}

function line(field) {
  const known = suggestionsOf(field);
  return html`<input class="wide" name=${field.name} autocomplete="off" spellcheck="false" maxlength="4096" placeholder=${field.hint || nothing}
      inputmode=${field.kind === "number" ? "numeric" : nothing} list=${known.length ? `start-choices-${field.name}` : nothing}
      aria-invalid=${wrong(field)} aria-describedby=${described(field)} .value=${live(valueOf(field))} @input=${(event) => change(field.name, event.target.value)}>
    ${known.length ? html`<datalist id="start-choices-${field.name}">${known.map((each) => html`<option value=${each.value}>${each.words}</option>`)}</datalist>` : nothing}`;
}

const ENTRIES = { "long text": task, "agent type": typeChoice };

function fieldView(field) {
  if (field.kind === "choice" && field.choices.length < 2) return nothing;
  const entry = field.kind === "choice" ? choice(field) : html`<label>${field.title} ${(ENTRIES[field.kind] ?? line)(field)}</label>`;
  const problem = problemOf(field);
  return html`<div class="start-field" data-field=${field.name}>${entry}
    ${field.name === "prompt" ? filesView() : nothing}
    ${problem ? html`<p class="problem" role="alert" id="problem-${field.name}">${problem}</p>`
      : field.notes.length ? html`<div class="hint notes" id="notes-${field.name}">${field.notes.map((note) => html`<p>${note}</p>`)}</div>` : nothing}</div>`;
}

function filesView() {
  const refusal = sheet?.takes_files === false ? takesNone(sheet.values.agent_type, "task") : "";
  const attached = files(START, refusal);
  return html`${attached.list}<p class="start-files">${attached.button}
    ${attached.count || Object.values(given).some(Boolean) ? html`<button type="button" class="act small" data-act="clear-spawn" @click=${clear}>Clear all</button>` : nothing}
    ${refusal ? nothing : html`<span class="hint start-drop">Files can be dropped and pasted too.</span>`}
    ${isBusy && attached.left ? html`<span class="hint" role="status">Starts when ${counted(attached.left)} uploaded.</span>` : nothing}</p>`;
}

const EMPTY_TASK = { name: "prompt", title: "Task", kind: "long text", value: "", problem: "", notes: [], rare: false };

function keys(event) {
  if (event.key !== "Enter") return;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    start(event.shiftKey);
  } else if (event.target.tagName === "INPUT" && event.target.type !== "file") event.preventDefault(); // it takes a suggestion
}

/** The sheet. `frame`: draws a dialog around it. */
export function startView(frame) {
  const fields = sheet?.fields ?? [EMPTY_TASK];
  const parts = (rare) => repeat(fields.filter((field) => field.rare === rare), (field) => field.name, fieldView);
  const command = withFiles(sheet?.command ?? commandOf("spawn", null), START);
  return frame("Start an agent", html`<form class="start" data-form="spawn" data-files=${START} novalidate @keydown=${keys}
      @submit=${(event) => { event.preventDefault(); start(false); }}>
    <div class="start-fields">${parts(false)}
      ${sheet === null ? html`<p class="hint">${trouble || "Loading the choices."}</p>` : html`<details class="start-more" ?open=${isOpenMore} @toggle=${(event) => { isOpenMore = event.target.open; }}>
        <summary>More</summary><div class="start-fields">${parts(true)}</div></details>`}
      <p class="start-command"><code tabindex="0">${command}</code><button type="button" class="act small" @click=${() => copy(command)}>Copy</button></p></div>
    <div class="start-end">
      ${refused && refused.field === "" ? html`<p class="problem" role="alert">${refused.words}</p>` : nothing}
      ${trouble && sheet !== null ? html`<p class="problem" role="alert">${trouble}</p>` : nothing}
      <p class="start-told" role="status">${told}</p>
      <p class="start-prediction" role="status">${sheet?.prediction ?? ""}</p>
      <div class="buttons"><button class="act go" data-act="do-spawn" aria-disabled=${isBusy}>${isBusy ? "Starting" : html`Start<kbd aria-hidden="true">Ctrl-Enter</kbd>`}</button>
        <button type="button" class="act" data-act="do-another" aria-disabled=${isBusy} @click=${() => start(true)}>Start, then another</button>
        <button type="button" class="act" @click=${close}>Close</button></div></div></form>`, "start-dialog");
}
