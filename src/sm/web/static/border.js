// The border between the list and what is beside it: a person drags it, or moves it with the arrow keys.

import { html } from "./vendor/lit/lit.js";
import { keepView, state } from "./state.js";
import { setProperty } from "./styles.js";
import { isWide, ui } from "./ui.js";

const USUAL = { list: 44, wide: 29 }; // the part of the list in per cent; `wide`: beside what needs the width
const STEP = 2;
const LIST_MIN = 300; // pixels, as in app.css
const BESIDE_MIN = 390;

const kind = () => (isWide() ? "wide" : "list");
const share = () => state.look.split[kind()] ?? USUAL[kind()];

/** The least and the largest part of the list, in per cent. */
function limits() {
  const width = document.querySelector(".main")?.clientWidth || innerWidth;
  return [Math.ceil((LIST_MIN / width) * 100), Math.max(50, Math.floor((1 - BESIDE_MIN / width) * 100))];
}

function place(wanted) {
  const [least, most] = limits();
  state.look.split[kind()] = Math.round(Math.min(most, Math.max(least, wanted)) * 10) / 10;
  ui.drawNow();
}

function drag(event) {
  if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
  const { left, width } = document.querySelector(".main").getBoundingClientRect();
  place(((event.clientX - left) / width) * 100);
}

function reset() {
  delete state.look.split[kind()];
  ui.drawNow();
  keepView();
}

function press(event) {
  const [least, most] = limits();
  const wanted = { ArrowLeft: share() - STEP, ArrowRight: share() + STEP, Home: least, End: most }[event.key];
  if (event.key === "Enter") reset();
  else if (wanted === undefined) return;
  else {
    place(wanted);
    keepView();
  }
  event.preventDefault();
  event.stopPropagation(); // these keys move in the list too
}

export function border() {
  const [least, most] = limits();
  const now = Math.round(Math.min(most, Math.max(least, share())));
  setProperty("--list", String(share()));
  return html`<div class="border" role="separator" tabindex="0" aria-orientation="vertical" aria-label="Width of the list" aria-controls="list"
    aria-valuenow=${now} aria-valuemin=${least} aria-valuemax=${most} aria-valuetext="${now} per cent"
    title="Drag, or press the arrow keys. Double click or Enter: the usual width"
    @pointerdown=${(event) => event.currentTarget.setPointerCapture(event.pointerId)} @pointermove=${drag} @pointerup=${keepView}
    @dblclick=${reset} @keydown=${press}></div>`;
}
