// The menu of a line of the queue: what the board offers for it beside its buttons.

import { html, nothing, ref } from "./vendor/lit/lit.js";
import { actionOf, begin, copy, refusal } from "./acts.js";
import { canSelect, focusNeed, hasEquals, press, selectEqual } from "./queue.js";
import { ui } from "./ui.js";

let open = null; // {need, button}

/** Show the menu beside its button, in the top layer: no scrolled region cuts it off. */
const popover = ref((element) => {
  if (element === undefined || open === null || element.matches(":popover-open")) return;
  queueMicrotask(() => {
    if (open === null || !element.isConnected) return;
    element.showPopover();
    const { bottom, top, right } = open.button.getBoundingClientRect();
    const below = bottom + element.offsetHeight <= innerHeight || top < element.offsetHeight;
    element.style.top = `${Math.max(4, below ? Math.min(bottom, innerHeight - element.offsetHeight) : top - element.offsetHeight)}px`;
    element.style.left = `${Math.max(4, right - element.offsetWidth)}px`;
    element.querySelector("button")?.focus();
  });
});

export function openMenu(need, button) {
  open = { need, button };
  ui.drawNow();
}

function close() {
  const before = open;
  open = null;
  ui.drawNow();
  if (before !== null && (document.activeElement === document.body || document.activeElement === null)) focusNeed(before.need.key);
}

/** What the menu of an entry has: [name, title, what it does, its command or key]. */
function items(need) {
  const list = [];
  if (hasEquals(need) && canSelect(need)) list.push(["equal", `Select ${need.equal.keys.length} equal`, () => selectEqual(need), "="]);
  for (const name of need.menu ?? []) {
    if (refusal(name, { need }) !== null) continue;
    list.push([name, actionOf(name).title, () => (name === "read" ? press(need, name) : begin(name, { need })), need.commands?.[name] ?? ""]);
  }
  if (need.copy) list.push(["copy", "Copy the command", () => copy(need.copy), need.copy]);
  return list;
}

export function menuView() {
  if (open === null) return nothing;
  const run = (act) => {
    close();
    act();
  };
  const keys = (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    event.stopPropagation();
    if (steps === undefined) return;
    event.preventDefault();
    const buttons = [...event.currentTarget.querySelectorAll("button")];
    buttons[(buttons.indexOf(document.activeElement) + steps + buttons.length) % buttons.length]?.focus();
  };
  return html`<div popover class="need-menu" role="group" aria-label="More for ${open.need.key}" ${popover} @keydown=${keys}
    @toggle=${(event) => event.newState === "closed" && open !== null && close()}>
    ${items(open.need).map(([name, title, act, more]) => html`<button class="menu-item" data-act=${name} @click=${() => run(act)}><span>${title}</span><span class="hint">${more}</span></button>`)}
  </div>`;
}
