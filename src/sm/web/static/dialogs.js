// Dialogs: the palette of actions, the help, the question before a kill, the fields of an action.

import { html, nothing, ref } from "./vendor/lit/lit.js";
import { actionOf, begin, carryOut, commandOf, DECISIONS, keyOf, refusal, wordsOf } from "./acts.js";
import { toggleArchived } from "./keys.js";
import { batchDialog } from "./need_batch.js";
import { liveBelow, rowOf, state } from "./state.js";
import { choose } from "./tree.js";
import { go, ui } from "./ui.js";

const viewKeys = () => [
  ["j k ↓ ↑", "Move the selection; g G: to the first or last line; PageUp PageDown"],
  ["Tab N", "Go to the next region; N: to the first request"],
  ["Enter", "Open the selected session; unfold a line of what needs you"],
  ["x X =", "In what needs you: select the line, all lines since the last one, all that ask for the same"],
  ["← → Space", "Fold and unfold the sessions below the selected one"],
  ["0-9", "Choose a workspace; on a question with options: answer it"],
  [DECISIONS.map(keyOf).join(" "), "On a request: approve, deny with words, answer with a text"],
  ["[ ]", "Choose the workspace before or after; on a session: another tab"],
  ["/", "Filter"],
  ["S", "Next order"],
  ["e $ T", "Show the events, the spend, the timeline"],
  ["A", "Show or hide archived sessions"],
  [": Ctrl-K", "Choose an action from a list"],
  ["c", "Copy the sm command of the selection"],
  ["u", "Undo, for 5 seconds"],
  ["Esc", "Back; drop the filter"],
  ["?", "Show this help"],
];

let returnTo = null;

export function openDialog(dialog) {
  ui.dialog = dialog;
  ui.drawNow();
}

export function close() {
  ui.dialog = null;
  ui.drawNow();
}

/** Open the element as a modal dialog as soon as it is drawn; the focus comes back to where it was. */
const modal = ref((element) => {
  if (element === undefined) {
    if (returnTo?.isConnected) returnTo.focus();
    returnTo = null;
  } else if (!element.open) {
    returnTo = document.activeElement;
    queueMicrotask(() => {
      if (!element.isConnected) return;
      element.showModal();
      element.querySelector("[data-first]")?.focus();
    });
  }
});

export function frame(title, content, look = "") {
  const outside = (event) => event.target === event.currentTarget && close();
  return html`<dialog ${modal} class=${look} aria-labelledby="dialog-title" @close=${() => ui.dialog && close()} @click=${outside}>
    <div class="dialog-body"><h2 id="dialog-title">${title}</h2>${content}</div></dialog>`;
}

export function dialogView() {
  const { dialog } = ui;
  if (dialog === null) return nothing;
  return DIALOGS[dialog.kind](dialog);
}

const DIALOGS = { palette, help, kill, copy: copyText, form, batch: batchDialog, start: ({ view }) => view(frame) };

function kill({ session }) {
  const label = rowOf(session)?.label ?? session;
  const below = liveBelow(session);
  const end = (tree) => {
    close();
    carryOut("kill", session, { tree });
  };
  return frame(`Kill ${label}?`, html`<p>Its process ends now. Work that is not saved is lost.</p>
    ${below.length ? html`<p>Live sessions below it:</p><ul>${below.slice(0, 20).map((name) => html`<li>${name}</li>`)}${below.length > 20 ? html`<li>and ${below.length - 20} more</li>` : nothing}</ul>` : nothing}
    <div class="buttons"><button class="act" data-first @click=${close}>Cancel</button>
      <button class="act stop" data-act="kill-one" @click=${() => end(false)}>Kill ${label}</button>
      ${below.length ? html`<button class="act stop" data-act="kill-tree" @click=${() => end(true)}>Kill it and the ${below.length} below</button>` : nothing}</div>`);
}

function copyText({ text }) {
  return frame("Copy by hand", html`<p class="hint">This browser gives no access to the clipboard here.</p>
    <input class="wide" readonly data-first aria-label="Text to copy" .value=${text} @focus=${(event) => event.target.select()}>
    <div class="buttons"><button class="act" @click=${close}>Close</button></div>`);
}

/** What the person has seen of a request, for a form about it. */
const shownIn = ({ need, offer }) => (need ? { need: need.key, shown: need.digest, text: offer.line ?? "" } : {});

/** The fields and the question of an action, as the server's table has them. */
function form(dialog) {
  const { title, fields } = actionOf(dialog.name);
  const { question, line, defaults, command } = dialog.offer;
  const sessions = new Map([...state.rows.values()].filter((row) => row.live).map((row) => [row.label, row.id]));
  const choices = { session: [...sessions.keys()] };
  const submit = async (event) => {
    event.preventDefault();
    if (dialog.busy) return;
    const given = {};
    for (const [name, text] of new FormData(event.target)) {
      const { kind } = fields.find((field) => field.name === name);
      if (text.trim()) given[name] = kind === "session" ? (sessions.get(text.trim()) ?? text.trim()) : text;
    }
    Object.assign(dialog, { busy: true, problem: "", place: "" });
    ui.drawNow();
    const done = await carryOut(dialog.name, dialog.session, { fields: given, ...shownIn(dialog) });
    const named = fields.find((field) => field.name === done.field);
    Object.assign(dialog, { busy: false, problem: done.ok ? "" : wordsOf(done), place: named?.name ?? "" });
    if (done.ok && ui.dialog === dialog) close();
    else {
      ui.drawNow();
      document.querySelector(".dialog-body [aria-invalid]")?.focus();
    }
  };
  const isWrong = (name) => dialog.problem !== "" && name === dialog.place;
  const words = (name) => (isWrong(name) ? html`<p class="problem" role="alert" id="problem-${name}">${dialog.problem}</p>` : nothing);
  const entry = ({ name, kind, required, hint }, place) => html`<input class="wide" name=${name} ?data-first=${place === 0} ?required=${required}
        maxlength="50000" autocomplete="off" spellcheck="false" placeholder=${hint || nothing}
        aria-invalid=${isWrong(name) || nothing} aria-describedby=${isWrong(name) ? `problem-${name}` : nothing}
        list=${choices[kind] ? `choices-${name}` : nothing} value=${defaults[name]}>`;
  const field = (known, place) => html`<label>${known.title} ${entry(known, place)}</label>${words(known.name)}
    ${choices[known.kind] ? html`<datalist id="choices-${known.name}">${choices[known.kind].map((choice) => html`<option value=${choice}></option>`)}</datalist>` : nothing}`;
  const label = rowOf(dialog.session)?.label;
  const place = dialog.workspace ? `In workspace ${dialog.workspace}.` : "";
  return frame(actionOf(dialog.name).needs_session && label ? `${title}: ${label}` : title, html`<form data-form=${dialog.name} @submit=${submit}>
    ${fields.map(field)}
    ${question ? html`<p>${question}</p>` : nothing}
    ${line ? html`<pre class="quoted">${line}</pre>` : nothing}
    ${words("")}
    <p class="hint">${actionOf(dialog.name).needs_session ? "" : place} In a shell: ${command}</p>
    <div class="buttons"><button class="act ${dialog.name === "rm" ? "stop" : "go"}" data-act="do-${dialog.name}" aria-disabled=${dialog.busy}>${dialog.busy ? "Working" : title}</button>
      <button type="button" class="act" ?data-first=${fields.length === 0} @click=${close}>Cancel</button></div></form>`);
}

const changesKeys = [
  ["j k", "Go to the next or the previous file"],
  [". ,", "Mark the next or the previous line"],
  ["Enter", "Comment on the marked line"],
  ["V", "Side by side, or unified"],
  ["W", "Show the whole file, or only what is near changes"],
  ["z", "Fold the file, or show it"],
  ["L", "Show the drafts"],
];

function help() {
  const keys = (list) => list.map(([key, text]) => html`<tr><th scope="row"><kbd>${key}</kbd></th><td>${text}</td></tr>`);
  const session = state.selected;
  return frame("Keys", html`<table><tbody>${keys(viewKeys())}</tbody></table>
    ${ui.route.tab === "changes" ? html`<h3>In the changes</h3><table><tbody>${keys(changesKeys)}</tbody></table>` : nothing}
    <h3>Actions on the selected session</h3>
    <table><tbody>${(state.hello?.actions ?? []).map((action) => {
      const why = refusal(action.name, { session });
      return html`<tr class=${why === null ? "" : "over"}><th scope="row"><kbd>${action.key}</kbd></th><td>${action.title}
        <span class="hint">${why ?? commandOf(action.name, session)}</span></td></tr>`;
    })}</tbody></table>
    ${state.hello?.filter_help ? html`<h3>Filter words</h3><p>${filterHelp(state.hello.filter_help)}</p>` : nothing}
    <div class="buttons"><button class="act" data-first @click=${close}>Close</button></div>`);
}

export const filterHelp = (words) => (Array.isArray(words) ? words.join(" ") : words);

/** Everything that the palette offers: the actions on the target, then the places of the page. */
function entries(target) {
  const { need = null, session = null } = target;
  const actions = (state.hello?.actions ?? []).map((action) => ({
    title: action.title,
    key: action.key,
    more: need?.commands?.[action.name] ?? commandOf(action.name, session),
    refusal: refusal(action.name, { need, session }),
    run: () => begin(action.name, target),
  }));
  const place = (title, run, key = "", more = "") => ({ title, key, more, refusal: null, run });
  return [
    ...actions,
    ...state.chips.map((chip) => place(`Workspace: ${chip.title} (${chip.count})`, () => choose(chip.slug ?? ""), chip.key,
      `sm ls --all${chip.slug ? ` --workspace ${chip.slug}` : ""}`)),
    place("Show the list of sessions", () => go("#/"), "Esc", "sm ls"),
    place("Show the events", () => go("#/events"), "e", "sm events"),
    place("Show the spend", () => go("#/spend"), "$"),
    place("Show the timeline", () => go("#/timeline"), "T"),
    place("Show the sessions that ended earlier", () => go("#/earlier"), "", "sm ls --all --limit all"),
    place("Show or hide archived sessions", toggleArchived, "A", "sm ls --all --archived"),
    place("Show all keys", () => openDialog({ kind: "help" }), "?"),
  ];
}

function palette(dialog) {
  const words = dialog.text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = entries(dialog.target).filter((entry) => words.every((word) => `${entry.title} ${entry.refusal ?? entry.more}`.toLowerCase().includes(word)))
    .sort((one, other) => (one.refusal !== null) - (other.refusal !== null));
  dialog.at = Math.min(Math.max(0, dialog.at), Math.max(0, found.length - 1));
  const run = (entry) => {
    if (entry === undefined) return;
    close();
    entry.run();
  };
  const keys = (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (steps !== undefined) {
      event.preventDefault();
      dialog.at = (dialog.at + steps + found.length) % Math.max(1, found.length);
      ui.drawNow();
      document.getElementById(`choice-${dialog.at}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(found[dialog.at]);
    }
  };
  const type = (event) => {
    dialog.text = event.target.value;
    dialog.at = 0;
    ui.drawNow();
  };
  const { need = null, session = null } = dialog.target;
  const label = need?.key ?? rowOf(session)?.label;
  return frame(label ? `Actions on ${label}` : "Actions", html`<input class="wide" data-first role="combobox" aria-label="Search the actions" aria-expanded="true" aria-controls="choices"
      aria-activedescendant=${found.length ? `choice-${dialog.at}` : nothing} autocomplete="off" .value=${dialog.text} @input=${type} @keydown=${keys}>
    <ul id="choices" role="listbox" aria-label="Actions" class="choices">${found.map((entry, place) => html`<li role="option" id="choice-${place}"
        aria-selected=${place === dialog.at} aria-disabled=${entry.refusal !== null} @click=${() => run(entry)}>
        <span>${entry.title}</span><span class="hint">${entry.refusal ?? entry.more}</span>${entry.key ? html`<kbd>${entry.key}</kbd>` : nothing}</li>`)}</ul>
    <p class="hint">Enter: do it. Esc: back.</p>`);
}
