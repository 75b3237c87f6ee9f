// The menu of what this browser keeps about the look of the page: colours, density and columns.

import { html, nothing } from "./vendor/lit/lit.js";
import { chooseColumn, columnChoices } from "./columns.js";
import { openDialog } from "./dialogs.js";
import { askPermission, canAsk } from "./notices.js";
import { state } from "./state.js";
import { ui } from "./ui.js";

// theme.js reads them before the page is drawn. The first one of each is the usual one.
const LOOKS = { theme: ["system", "dark", "light"], density: ["comfortable", "compact"] };

const lookOf = (kind) => document.documentElement.dataset[kind] ?? LOOKS[kind][0];

function chooseLook(kind, name) {
  if (name === LOOKS[kind][0]) {
    delete document.documentElement.dataset[kind];
    localStorage.removeItem(`sm.${kind}`);
  } else {
    document.documentElement.dataset[kind] = name;
    localStorage.setItem(`sm.${kind}`, name);
  }
  ui.drawNow();
}

const look = (kind, title) => html`<label>${title} <select @change=${(event) => chooseLook(kind, event.target.value)}>${LOOKS[kind].map((name) =>
  html`<option value=${name} ?selected=${name === lookOf(kind)}>${name}</option>`)}</select></label>`;

function close(menu) {
  menu.open = false;
  menu.querySelector("summary").focus();
}

const keys = (event) => {
  if (event.key !== "Escape" || !event.currentTarget.open) return;
  event.stopPropagation(); // it leads back to the list too
  close(event.currentTarget);
};

/** Close open menus when somebody presses elsewhere. */
export function closeMenusOutside() {
  addEventListener("pointerdown", ({ target }) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(target)) menu.open = false;
  });
}

export function settings() {
  const choose = (name) => (event) => {
    chooseColumn(name, event.target.checked);
    ui.drawNow();
  };
  return html`<details class="menu" @keydown=${keys}><summary class="act small" aria-label="Settings">⋯</summary><div class="menu-body">
    ${look("theme", "Colours")} ${look("density", "Density")}
    <fieldset class="columns"><legend>Columns</legend>${columnChoices().map(({ name, title, chosen, missing }) =>
      html`<label class="check"><input type="checkbox" .checked=${chosen} data-column=${name} @change=${choose(name)}><span>${title}</span>${missing ? html`<span class="hint">${missing}</span>` : nothing}</label>`)}</fieldset>
    ${canAsk() ? html`<button class="act" @click=${askPermission}>Notify me</button>` : nothing}
    <button class="act" @click=${() => openDialog({ kind: "help" })}>Keys<kbd aria-hidden="true">?</kbd></button>
    <p class="hint">Login ${state.hello?.login ?? "-"}, scope ${state.hello?.scope ?? "-"}, sm ${state.hello?.version ?? "-"}</p></div></details>`;
}
