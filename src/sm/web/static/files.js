// The files of a message or a task: chosen, dropped or pasted, uploaded at once, and kept until they are sent.

import { html, nothing, repeat } from "./vendor/lit/lit.js";
import { token } from "./api.js";
import { loadStyles } from "./styles.js";
import { ui } from "./ui.js";
import { visible } from "./words.js";

loadStyles("files.css").catch(() => {}); // without it, the list is plain

/** The place of the sheet that starts an agent. All other places are the IDs of sessions. */
export const START = "start";

const FILE_MAX_BYTES = 10 * 1024 * 1024;
const COUNT_MAX = 10; // of one message
const NAME_MAX = 100;
const NAME_MAX_BYTES = 255;
const AT_ONCE = 2;
const WITHIN_MS = 600_000;
const KEPT = "sm.files.";
const KEPT_MS = 23 * 3600_000; // after a day, the daemon deletes a file that no message has
const PATH = "/api/v1/files";

// By name of the place: {name, entries, notice, refusal, isTried}. The notice is about files that were not added. The
// refusal says why the place takes no files, and is empty where it does. `isTried`: somebody has added one nevertheless.
const places = new Map();
const watchers = new Set(); // called after each change
let over = null; // the place that would get the dragged files
let number = 0;

const storeOf = (name) => (name === START ? sessionStorage : localStorage);
const isOnWay = ({ state }) => state === "waiting" || state === "uploading";

function placeOf(name) {
  if (!places.has(name)) places.set(name, { name, entries: keptOf(name), notice: "", refusal: "", isTried: false });
  return places.get(name);
}

/** The uploaded files of an earlier page. */
function keptOf(name) {
  try {
    const kept = JSON.parse(storeOf(name).getItem(KEPT + name)) ?? [];
    return kept.filter(({ at }) => Date.now() - at < KEPT_MS).map((entry) => ({ ...entry, key: ++number, state: "done", words: "" }));
  } catch {
    return [];
  }
}

function changed({ name, entries }) {
  const kept = entries.filter(({ state }) => state === "done").map(({ id, name: file, size, at }) => ({ id, name: file, size, at }));
  if (kept.length) storeOf(name).setItem(KEPT + name, JSON.stringify(kept));
  else storeOf(name).removeItem(KEPT + name);
  for (const look of watchers) look();
  ui.draw();
}

// Another tab has sent or removed files of the same draft, or added some.
addEventListener("storage", ({ key }) => {
  const place = key?.startsWith(KEPT) ? places.get(key.slice(KEPT.length)) : undefined;
  if (place === undefined) return;
  const kept = keptOf(place.name);
  const own = place.entries.filter(({ id, state }) => state !== "done" || kept.some((entry) => entry.id === id));
  place.entries = [...own, ...kept.filter(({ id }) => !own.some((entry) => entry.id === id))];
  ui.draw();
});

// Adding and removing

function add(place, files) {
  const problems = new Set();
  for (const file of place.refusal ? [] : files) {
    const name = nameOf(place, file);
    if (place.entries.length >= COUNT_MAX) problems.add(`At most ${COUNT_MAX} files are possible.`);
    else if (file.size > FILE_MAX_BYTES) problems.add(`${visible(name)} is larger than 10 MiB.`);
    else if (file.size === 0) problems.add(`${visible(name)} is empty.`);
    else place.entries.push({ key: ++number, name, size: file.size, state: "waiting", words: "", file, part: 0 });
  }
  place.notice = [...problems].join(" ");
  place.isTried = Boolean(place.refusal);
  uploadNext();
  changed(place);
}

/** The name under which the agent gets a file. It differs from the others of its place. */
function nameOf(place, file) {
  const clean = file.name.replace(/\p{Zs}/gu, " ").replace(/[\p{C}\p{Z}/\\]/gu, (c) => (c === " " ? c : "_")).trim() || "file";
  const dot = clean.lastIndexOf(".");
  const [stem, end] = dot > 0 ? [clean.slice(0, dot), clean.slice(dot).slice(0, 20)] : [clean, ""];
  const taken = new Set(place.entries.map(({ name }) => name));
  for (let count = 1; ; count += 1) {
    const more = count === 1 && !file.isNumbered ? end : `-${count}${end}`;
    const start = [...stem].slice(0, NAME_MAX - more.length);
    while (new TextEncoder().encode(start.join("") + more).length > NAME_MAX_BYTES) start.pop();
    const name = start.join("") + more;
    if (!taken.has(name)) return name;
  }
}

function remove(place, entry, event) {
  const list = event.currentTarget.closest("form");
  const at = place.entries.indexOf(entry);
  place.notice = "";
  discard(place, [entry]);
  if (event.detail !== 0) return; // by a pointer
  ui.drawNow();
  const others = list.querySelectorAll('[data-act="remove-file"]');
  (others[Math.min(at, others.length - 1)] ?? list.querySelector("textarea"))?.focus();
}

function discard(place, entries) {
  drop(place, entries);
  const options = { method: "DELETE", headers: { Authorization: `Bearer ${token()}` }, credentials: "omit" };
  for (const { state, id, request } of entries) {
    if (state === "done") fetch(`${PATH}/${encodeURIComponent(id)}`, options).catch(() => {}); // the daemon deletes it after a day
    request?.abort();
  }
}

function drop(place, entries) {
  place.entries = place.entries.filter((entry) => !entries.includes(entry));
  changed(place);
}

// Uploading

function uploadNext() {
  const all = [...places.values()].flatMap((place) => place.entries.map((entry) => [place, entry]));
  let free = AT_ONCE - all.filter(([, { state }]) => state === "uploading").length;
  for (const [place, entry] of all) if (entry.state === "waiting" && free-- > 0) upload(place, entry);
}

/** Fetch cannot tell how much of a file is uploaded. */
function upload(place, entry) {
  const request = new XMLHttpRequest();
  Object.assign(entry, { state: "uploading", words: "", part: 0, request });
  request.open("POST", `${PATH}?${new URLSearchParams({ name: entry.name })}`);
  request.setRequestHeader("Authorization", `Bearer ${token()}`);
  request.setRequestHeader("Content-Type", "application/octet-stream");
  request.responseType = "json";
  request.timeout = WITHIN_MS;
  request.upload.onprogress = ({ loaded, total }) => {
    entry.part = total ? loaded / total : 0;
    ui.draw();
  };
  request.onload = () => {
    const { response, status } = request;
    if (response?.file_id) Object.assign(entry, { state: "done", id: response.file_id, at: Date.now() });
    else fail(entry, response?.error?.message ?? `the server answered ${status}`);
  };
  request.onerror = () => fail(entry, "no connection to sm web");
  request.ontimeout = () => fail(entry, "the upload took too long");
  request.onloadend = () => {
    entry.request = null;
    uploadNext();
    changed(place);
  };
  request.send(entry.file);
}

const fail = (entry, words) => Object.assign(entry, { state: "failed", words });

function again(place, entry, event) {
  const item = event.currentTarget.closest("li");
  entry.state = "waiting";
  uploadNext();
  changed(place);
  if (event.detail !== 0) return;
  ui.drawNow();
  item.querySelector('[data-act="remove-file"]')?.focus();
}

/** Wait until the present files of a place are uploaded: their `entries`, and why they cannot be sent, or empty. */
export async function uploaded(name) {
  const place = placeOf(name);
  const wanted = place.entries;
  const present = () => wanted.filter((entry) => place.entries.includes(entry));
  await new Promise((resolve) => {
    const look = () => {
      if (present().some(isOnWay)) return;
      watchers.delete(look);
      resolve();
    };
    watchers.add(look);
    look();
  });
  const failed = present().find(({ state }) => state === "failed");
  return { entries: present(), ids: present().map(({ id }) => id), problem: failed ? `${visible(failed.name)} is not uploaded: try again, or remove it` : "" };
}

/** Note at the files that the daemon names in a refusal why they cannot be sent. */
export function refuse(name, words) {
  const place = placeOf(name);
  for (const entry of place.entries) if (entry.id && words.includes(entry.id)) fail(entry, "it is no longer kept");
  changed(place);
}

/** Forget files: they were sent. */
export const release = (name, entries) => drop(placeOf(name), entries);

/** Remove all files of a place, and the words about them. */
export function clearFiles(name) {
  const place = placeOf(name);
  Object.assign(place, { notice: "", isTried: false });
  discard(place, place.entries);
}

// Dragging and pasting

/** The place that files go to now: that of the open dialog, or of the open session. */
function target() {
  const root = document.querySelector("dialog[open]") ?? document;
  const name = root.querySelector("[data-files]")?.dataset.files;
  return name === undefined ? null : placeOf(name);
}

const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");

function dragOver(place) {
  if (over === place) return;
  over = place;
  ui.draw();
}

// Without these handlers the browser would leave the page and show the file.
addEventListener("dragover", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  dragOver(target());
  event.dataTransfer.dropEffect = over === null ? "none" : "copy";
});
addEventListener("dragleave", ({ relatedTarget }) => relatedTarget === null && dragOver(null));
addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  dragOver(null);
  const place = target();
  if (place === null) return;
  const items = [...event.dataTransfer.items].filter(({ kind }) => kind === "file");
  const isDirectory = items.map((item) => item.webkitGetAsEntry?.()?.isDirectory ?? false);
  add(place, [...event.dataTransfer.files].filter((_, at) => !isDirectory[at]));
  if (isDirectory.includes(true)) place.notice = `A directory cannot be added. ${place.notice}`.trim();
});
addEventListener("paste", (event) => {
  const { files } = event.clipboardData;
  const field = event.target.closest?.("input, textarea, select");
  if (!files.length || (field && !field.closest("[data-files]")) || !isOfFiles(event.clipboardData)) return;
  const place = target();
  if (place === null) return;
  event.preventDefault();
  add(place, [...files].map(named));
});

/** True if the clipboard has no text, or only the names of its files. Else the files are pictures of the text. */
function isOfFiles(data) {
  const names = [...data.files].map(({ name }) => name);
  return data.getData("text/plain").split("\n").every((line) => !line.trim() || names.some((name) => line.trim().endsWith(name)));
}

/** A pasted picture gets a name with a number: browsers call each one image.png. */
const named = (file) => (/^image\.\w+$/.test(file.name) ? Object.assign(new File([file], file.name, { type: file.type }), { isNumbered: true }) : file);

// The view

/** The files of a place as it is drawn: its `list`, its `button`, and how many are `left` to upload. `refusal`: why it takes none. */
export function files(name, refusal) {
  const place = Object.assign(placeOf(name), { refusal });
  return {
    count: place.entries.length,
    left: place.entries.filter(isOnWay).length,
    button: refusal ? nothing : html`<label class="act file-button">Add file<input class="unseen" type="file" multiple data-act="add-file" @change=${({ target: input }) => {
      add(place, [...input.files]);
      input.value = "";
    }}></label>`,
    list: html`${over === place && !refusal ? html`<p class="file-drop">Drop the file here</p>` : nothing}
      ${place.entries.length ? html`<ul class="files" aria-label="Files">${repeat(place.entries, ({ key }) => key, (entry) => chip(place, entry))}</ul>` : nothing}
      <p class="file-notice ${refusal && place.entries.length ? "problem" : "hint"}" role="status">${noticeOf(place)}</p>`,
  };
}

const noticeOf = ({ entries, notice, refusal, isTried }) => (!refusal ? notice : entries.length || isTried ? refusal : "");

function chip(place, entry) {
  const name = visible(entry.name);
  return html`<li class="file" data-state=${entry.state}><div class="file-facts"><span class="file-name" title=${name}>${name}</span>
    <span class="hint">${entry.state === "waiting" ? "waits" : amount(entry.size)}</span>
    ${entry.state === "uploading" ? html`<progress max="1" .value=${entry.part} aria-label="Upload of ${name}"></progress>` : nothing}
    ${entry.state === "failed" ? html`<span class="problem" role="alert">${entry.words}</span>
      ${entry.file ? html`<button type="button" class="act small" data-act="upload-again" @click=${(event) => again(place, entry, event)}>Try again</button>` : nothing}` : nothing}</div>
    <button type="button" class="act small" data-act="remove-file" aria-label="Remove ${name}" @click=${(event) => remove(place, entry, event)}>×</button></li>`;
}

function amount(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Why an agent of a type takes no files. `text`: what it gets. */
export const takesNone = (type, text) => `${type} takes no files, because it reads messages line by line. Write the path of the file into the ${text}.`;

/** The command with the files of a place. The person replaces the names with paths. */
export function withFiles(command, name) {
  const quoted = (text) => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
  const options = placeOf(name).entries.map((entry) => ` --file ${quoted(entry.name)}`);
  return command.replace("sm spawn", () => `sm spawn${options.join("")}`);
}

/** `1 file is` or `2 files are`. */
export const counted = (count) => (count === 1 ? "1 file is" : `${count} files are`);
