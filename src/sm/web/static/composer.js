// The field for a message to a session, with what will happen to it beside the button.

import { html, live, nothing, ref } from "./vendor/lit/lit.js";
import { refusal, send, wordsOf } from "./acts.js";
import { counted, files, refuse, release, takesNone, uploaded } from "./files.js";
import { state } from "./state.js";
import { tell, ui } from "./ui.js";

const MODES = { auto: "now, or when the agent can take it", idle: "when its turn is over", urgent: "now: it interrupts its turn" };
const DRAFT = "sm.draft.";
const modes = new Map();
const sending = new Set();

const draftOf = (id) => localStorage.getItem(DRAFT + id) ?? "";

function keep(id, text) {
  if (text) localStorage.setItem(DRAFT + id, text);
  else localStorage.removeItem(DRAFT + id);
}

// Words about the last act stand above the field, however high it is.
const sizes = new ResizeObserver(([{ target }]) => place(target.isConnected ? target.offsetHeight : 0));
const place = (height) => document.documentElement.style.setProperty("--composer", `${height}px`);
const measured = ref((form) => {
  sizes.disconnect();
  if (form === undefined) place(0);
  else sizes.observe(form);
});

/** `sent`: called when the daemon has taken a message. */
export function composer(row, sent) {
  const why = refusal("send", { session: row.id });
  const draft = draftOf(row.id);
  if (why !== null && state.details.has(row.id) && !draft) return html`<p class="compose over hint">No message can be sent: ${why}.</p>`;
  const mode = modes.get(row.id) ?? "auto";
  const attached = files(row.id, row.takes_files ? "" : takesNone(row.type, "message"));
  const submit = (event) => {
    event.preventDefault();
    if (!draftOf(row.id).trim()) {
      document.getElementById("message")?.focus();
      if (attached.count) tell("write what the agent does with the file", true);
    } else if (why !== null) tell(`not possible: ${why}`, true);
    else if (!sending.has(row.id)) sendDraft(row.id, mode).then(sent);
  };
  const keys = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
    else if (event.key === "Escape") document.getElementById("session-title")?.focus();
  };
  const type = (event) => {
    keep(row.id, event.target.value);
    ui.draw();
  };
  return html`<form class="compose" data-files=${row.id} @submit=${submit} ${measured}>
    <textarea id="message" rows="1" aria-label="Message to ${row.label}" aria-describedby="message-says" placeholder="Message to ${row.label}" maxlength="50000"
      .value=${live(draft)} @input=${type} @keydown=${keys}></textarea>
    ${attached.list}
    <div class="compose-line">
      <label class="mode" title=${MODES[mode]}><span class="unseen">Delivery</span><select .value=${live(mode)} @change=${(event) => {
        modes.set(row.id, event.target.value);
        ui.draw();
      }}>${Object.keys(MODES).map((name) => html`<option value=${name} ?selected=${name === mode} title=${MODES[name]}>${name}</option>`)}</select></label>
      <p class="hint" id="message-says">${sending.has(row.id) && attached.left ? `Will be sent when ${counted(attached.left)} uploaded` : html`${says(row, mode, why)}${draft ? " · draft kept" : ""}`}</p>
      ${why === null ? attached.button : nothing}
      ${why === null ? html`<button class="act go" data-act="send">${!sending.has(row.id) ? "Send" : attached.left ? "Uploading" : "Sending"}<kbd class="for-keys" aria-hidden="true">Ctrl ⏎</kbd></button>` : nothing}
    </div>
  </form>`;
}

function says(row, mode, why) {
  if (why !== null) return why;
  const words = state.details.get(row.id)?.predictions[mode] ?? "";
  return words.charAt(0).toUpperCase() + words.slice(1);
}

async function sendDraft(id, mode) {
  const text = draftOf(id);
  sending.add(id);
  ui.draw();
  const { entries, ids, problem } = await uploaded(id);
  const done = problem ? { ok: false, words: `not sent: ${problem}` } : await send("send", { session: id, need: null, text, mode, ...(ids.length ? { files: ids } : {}) });
  sending.delete(id);
  if (done.ok) release(id, entries);
  else if (ids.length) refuse(id, done.words);
  // The draft may be another by now: only what was sent is removed.
  if (done.ok && draftOf(id) === text) keep(id, "");
  tell(wordsOf(done), !done.ok);
}
