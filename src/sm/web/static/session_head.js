// The head of a session's page: its state in one line, the two actions that fit it, and a menu with all others.

import { html, nothing } from "./vendor/lit/lit.js";
import { actionOf, begin, isTouch, offerOf, refusal } from "./acts.js";
import { revealNeed } from "./needs.js";
import { screen } from "./screen.js";
import { nowS, state } from "./state.js";
import { chooseWidth, widthChoice } from "./terminal.js";
import { contextBar, statusClass } from "./tree.js";
import { ui } from "./ui.js";
import { span } from "./words.js";

const MAIN = 2; // buttons beside the state
const OF_THE_PAGE = ["send", "output"]; // they have a place of their own
const WIDTHS = { fit: "Fit the width", scroll: "Scroll sideways" };
const FAILED = 1; // the urgency of a session, as in board/row.py
const isPhone = matchMedia("(max-width: 480px)");
let isUnfolded = false;

export function sessionHead(row) {
  const age = span(nowS() - row.since);
  return html`<header class="session-head"><div class="session-line">
    <a class="act small back" href="#/" aria-label="Back to the list">←</a>
    <h2 id="session-title" tabindex="-1" title=${row.label}><span class="sign s-${statusClass(row)}" aria-hidden="true">${row.sign}</span> ${row.label}</h2>
    ${row.type && !row.label.includes(row.type.toLowerCase()) ? html`<span class="tag type">${row.type}</span>` : nothing}
    <p class="session-status" title=${row.task}><b class="s-${statusClass(row)}">${row.word} ${age}</b>${row.task ? html` ${row.task}` : nothing}</p>
    <p class="session-meta">${row.context_percent == null ? nothing : html`<span title="context in use"><span class="unseen">context </span>${contextBar(row)}</span>`}
      ${row.cost && row.cost !== "-" ? html`<span class="of-cost" title="cost">${row.cost}</span>` : nothing}
      ${row.branch ? html`<span class="of-branch" title="branch ${row.branch}">${row.branch}</span>` : nothing}</p>
    ${actions(row)}</div>
    ${isUnfolded ? facts(row) : nothing}
  </header>`;
}

function facts(row) {
  const list = [
    ["Name", row.label], ["ID", row.id], ["Type", row.type], ["Model", row.model], ["Workspace", row.workspace], ["Branch", row.branch], ["Done", row.progress],
    ["Tokens", row.tokens], ["Cost", row.cost], ["With descendants", row.tree_cost],
  ].filter(([, value]) => value && value !== "-");
  return html`<dl class="facts" id="session-facts">${list.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
    ${row.context_percent == null ? nothing : html`<div><dt>Context</dt><dd>${contextBar(row)}</dd></div>`}
    ${(row.badges ?? []).map((badge) => html`<div><dt>Note</dt><dd>${badge}</dd></div>`)}
    ${row.task ? html`<div class="long"><dt>Now</dt><dd>${row.task}</dd></div>` : nothing}</dl>`;
}

/** The first word of a title is enough beside the state: `Attach` for `Attach to the terminal`. */
const short = (name) => actionOf(name).title.split(" ")[0];

function actions(row) {
  const { main = [], request = null } = state.details.get(row.id) ?? {};
  const asked = state.needs.find((need) => need.kind === "request" && need.key === request);
  const names = main.filter((name) => actionOf(name) !== undefined && !OF_THE_PAGE.includes(name));
  const possible = names.filter((name) => refusal(name, { session: row.id }) === null);
  const room = isPhone.matches ? 1 : MAIN; // the name needs the rest
  const shown = possible.slice(0, asked ? room - 1 : room);
  const isUrgent = row.urgency <= FAILED;
  return html`<div class="acts" role="group" aria-label="Actions">
    ${asked ? html`<button class="act small go" data-act="open-request" @click=${() => revealNeed(asked)}>Answer ${asked.key}</button>` : nothing}
    ${shown.map((name, place) => html`<button class="act small ${place === 0 && !asked && isUrgent ? "go" : ""}" data-act=${name} title=${about(name, row)}
      @click=${() => begin(name, { session: row.id })}>${short(name)}</button>`)}
    <details class="menu session-menu"><summary class="act small" aria-label="More actions">⋯</summary><div class="menu-body">
      ${names.filter((name) => !shown.includes(name)).map((name) => item(name, row))}
      <button class="menu-item" aria-expanded=${isUnfolded} @click=${(event) => {
        isUnfolded = !isUnfolded;
        closeMenu(event);
        ui.drawNow();
      }}>${isUnfolded ? "Hide the details" : "Details"}</button>
      ${ui.route.tab === "peek" ? ofTerminal() : nothing}</div></details>
  </div>`;
}

const about = (name, row) => [actionOf(name).title, offerOf(name, row.id)?.command].filter(Boolean).join(": ");

function item(name, row) {
  const { title, key } = actionOf(name);
  const why = refusal(name, { session: row.id });
  if (why !== null) return name === "attach" && isTouch.matches ? nothing : html`<p class="hint menu-why" data-why=${name}>${title}: ${why}</p>`;
  return html`<button class="menu-item ${["kill", "rm"].includes(name) ? "bad" : ""}" data-act=${name} title=${about(name, row)} @click=${(event) => {
      closeMenu(event);
      begin(name, { session: row.id });
    }}>${title}<kbd class="for-keys" aria-hidden="true">${key}</kbd></button>`;
}

function ofTerminal() {
  return html`<hr><button class="menu-item" data-act="find" @click=${(event) => {
      closeMenu(event);
      screen.find();
    }}>Find in the terminal<kbd class="for-keys" aria-hidden="true">/</kbd></button>
    <fieldset class="widths"><legend class="hint">Wide lines</legend>${Object.entries(WIDTHS).map(([name, title]) => html`<label class="choice"><input type="radio" name="width" value=${name}
      .checked=${name === widthChoice()} @change=${() => chooseWidth(name)}> ${title}</label>`)}</fieldset>`;
}

function closeMenu(event) {
  event.target.closest("details").open = false;
}

function closeOthers(inside) {
  for (const menu of document.querySelectorAll(".session-menu[open]")) if (!menu.contains(inside)) menu.open = false;
}

addEventListener("pointerdown", ({ target }) => closeOthers(target), { passive: true });
addEventListener("hashchange", () => closeOthers(null));
addEventListener("keydown", (event) => {
  const menu = event.target instanceof Element ? event.target.closest(".session-menu[open]") : null;
  if (event.key !== "Escape" || menu === null) return;
  menu.open = false;
  menu.querySelector("summary").focus();
  event.stopImmediatePropagation();
}, true);
