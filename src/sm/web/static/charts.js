// The pages with charts. Their scripts and styles come when somebody opens them for the first time.

import { html } from "./vendor/lit/lit.js";
import { ui } from "./ui.js";

const PAGES = {
  spend: { title: "Spend", load: () => import("./spend.js") },
  timeline: { title: "Timeline", load: () => import("./timeline.js") },
};
const STYLES = ["vendor/uplot/uplot.css", "charts.css"];
const pages = new Map(); // name -> {draw, failed}
let styles = null;

/** Add the styles of charts to the page; they are there when the promise is kept. */
function addStyles() {
  styles ??= Promise.all(STYLES.map((name) => new Promise((resolve, reject) => {
    const link = document.createElement("link");
    Object.assign(link, { rel: "stylesheet", href: new URL(name, import.meta.url).href, onload: resolve, onerror: reject });
    document.head.append(link);
  })));
  return styles;
}

function latePage(name) {
  const { title, load } = PAGES[name];
  let found = pages.get(name);
  if (found === undefined) {
    found = { draw: null, failed: false };
    pages.set(name, found);
    Promise.all([load(), addStyles()])
      .then(([module]) => (found.draw = module.page), () => (found.failed = true))
      .finally(ui.drawNow);
  }
  if (found.draw !== null) return found.draw();
  return html`<section class="page" aria-labelledby="page-title">
    <header class="page-head"><a class="act back" href="#/" aria-label="Back to the list">←</a><h2 id="page-title" tabindex="-1">${title}</h2></header>
    ${found.failed ? html`<p class="problem">A part of this page could not be loaded. <a href=${location.href} @click=${() => location.reload()}>Load it again</a></p>`
      : html`<p class="empty">Loading.</p>`}</section>`;
}

export const spendPage = () => latePage("spend");
export const timelinePage = () => latePage("timeline");
