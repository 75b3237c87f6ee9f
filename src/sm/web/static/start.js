// The sheet that starts an agent. The server says what its fields have, know and lack (board/spawn_sheet.py): here it is
// drawn, and what the person types is kept until an agent has started with it, also over a reload.

import { html, live, nothing, repeat } from "./vendor/lit/lit.js";
import { carryOut, commandOf, copy, wordsOf } from "./acts.js";
import { post } from "./api.js";
import { state } from "./state.js";
import { ui } from "./ui.js";

const KEPT = "sm.start";
const ASK_MS = 150;
const FILE_MAX_BYTES = 40_000;
const TASK_SENT_MAX = 12_000; // of a longer task the server needs to know only that it is too long
const OPTION_MAX = 70;
const PICTURE = "Agents take text alone. Save the picture where the agent can read it, and write its path into the task.";

let given = read(); // what the person has changed, by the name of the field
let sheet = null; // the newest answer
let trouble = ""; // why there is no newer one
let refused = null; // what the daemon has said against the last start: {field, words}
let aside = ""; // the words about a file
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
  [sheet, trouble, refused, aside, isTried] = [null, "", null, "", false];
  ask();
  told = "";
}

async function ask() {
  clearTimeout(timer);
  const mine = ++asked;
  const fields = { ...given, ...(given.prompt === undefined ? {} : { prompt: given.prompt.slice(0, TASK_SENT_MAX) }) };
  try {
    const answer = await post("/start-sheet", { workspace: state.workspace || null, fields });
    if (mine === asked) [sheet, trouble] = [answer, answer.trouble];
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
  openStart();
  focus("prompt");
}

async function start(another) {
  if (isBusy) return;
  told = "";
  [isBusy, isTried, refused] = [true, true, null];
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
  const { again } = sheet;
  const fields = { ...sheet.values, ...(given.prompt?.trim() ? { prompt: given.prompt } : {}) };
  const done = await carryOut("spawn", null, { workspace: null, fields });
  isBusy = false;
  if (!done.ok) {
    const place = sheet.fields.find(({ name }) => name === done.field);
    refused = { field: place?.name ?? "", words: wordsOf(done) };
    if (place?.rare) isOpenMore = true;
    focus(refused.field || "prompt");
    return;
  }
  const isSame = given === sent; // else it is the input for another agent by now
  if (isSame) keep(another ? again : {});
  [isTried, aside] = [false, ""];
  if (ui.dialog?.view !== startView) return;
  if (isSame && !another) return close();
  await ask();
  told = `Started ${[fields.agent_type, fields.name].filter(Boolean).join(" ")}. The fields are for another agent now.`;
  focus("prompt");
}

// The task

async function addFiles(files, area) {
  for (const file of files) {
    aside = "";
    if (file.type.startsWith("image/")) aside = PICTURE;
    else if (file.size > FILE_MAX_BYTES) aside = `${file.name} is too long for a task. Write its path into the task.`;
    else {
      const text = await textOf(file);
      if (text === null) aside = `${file.name} is not a text. Write its path into the task.`;
      else insert(area, text);
    }
  }
  ui.drawNow();
}

async function textOf(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.includes("\0") ? null : text.trimEnd();
  } catch {
    return null; // a directory cannot be read either
  }
}

function insert(area, text) {
  const before = area.value.slice(0, area.selectionStart);
  const gap = before && !before.endsWith("\n") ? "\n" : "";
  area.setRangeText(`${gap}${text}`, area.selectionStart, area.selectionEnd, "end");
  change("prompt", area.value);
}

const areaOf = (event) => event.target.closest("form").querySelector('[name="prompt"]');

function drop(event) {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  addFiles([...event.dataTransfer.files], areaOf(event));
}

function paste(event) {
  const { files } = event.clipboardData;
  if (!files.length || event.clipboardData.types.includes("text/plain")) return;
  event.preventDefault();
  addFiles([...files], areaOf(event));
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
      @input=${(event) => change("prompt", event.target.value)} @paste=${paste}></textarea>`;
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
    ${field.name === "prompt" ? html`<p class="start-files"><label class="act small">Add a text file <input class="unseen" type="file" multiple
        @change=${(event) => { addFiles([...event.target.files], areaOf(event)); event.target.value = ""; }}></label>
      ${Object.values(given).some(Boolean) ? html`<button type="button" class="act small" data-act="clear-spawn" @click=${clear}>Clear all</button>` : nothing}
      <span class="hint" role="status">${aside || html`<span class="start-drop">A file can be dropped here too.</span>`}</span></p>` : nothing}
    ${problem ? html`<p class="problem" role="alert" id="problem-${field.name}">${problem}</p>`
      : field.notes.length ? html`<div class="hint notes" id="notes-${field.name}">${field.notes.map((note) => html`<p>${note}</p>`)}</div>` : nothing}</div>`;
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
  const command = sheet?.command ?? commandOf("spawn", null);
  return frame("Start an agent", html`<form class="start" data-form="spawn" novalidate @keydown=${keys} @dragover=${(event) => event.preventDefault()} @drop=${drop}
      @submit=${(event) => { event.preventDefault(); start(false); }}>
    <div class="start-fields">${parts(false)}
      ${sheet === null ? html`<p class="hint">${trouble || "Loading the choices."}</p>` : html`<details class="start-more" ?open=${isOpenMore} @toggle=${(event) => { isOpenMore = event.target.open; }}>
        <summary>More</summary><div class="start-fields">${parts(true)}</div></details>`}
      <p class="start-command"><code>${command}</code><button type="button" class="act small" @click=${() => copy(command)}>Copy</button></p></div>
    <div class="start-end">
      ${refused && refused.field === "" ? html`<p class="problem" role="alert">${refused.words}</p>` : nothing}
      ${trouble && sheet !== null ? html`<p class="problem" role="alert">${trouble}</p>` : nothing}
      <p class="start-told" role="status">${told}</p>
      <p class="start-prediction" role="status">${sheet?.prediction ?? ""}</p>
      <div class="buttons"><button class="act go" data-act="do-spawn" aria-disabled=${isBusy}>${isBusy ? "Starting" : html`Start<kbd aria-hidden="true">Ctrl-Enter</kbd>`}</button>
        <button type="button" class="act" data-act="do-another" aria-disabled=${isBusy} @click=${() => start(true)}>Start, then another</button>
        <button type="button" class="act" @click=${close}>Close</button></div></div></form>`, "start-dialog");
}
