// The pages beside the list. The scripts and styles of each are loaded when somebody opens it first.

import { html } from "./vendor/lit/lit.js";
import { loadStyles } from "./styles.js";
import { ui } from "./ui.js";

const PAGES = {
  session: ["Session", loadSession],
  events: ["Events", () => import("./feed.js").then(({ eventsPage }) => eventsPage)],
  spend: ["Spend", () => withCharts(import("./spend.js"))],
  timeline: ["Timeline", () => withCharts(import("./timeline.js"))],
  earlier: ["Ended earlier", () => import("./earlier.js").then(({ earlierPage }) => earlierPage)],
};

async function loadSession() {
  const [{ reload, sessionPage }, { screen }] = await Promise.all([import("./session.js"), import("./screen.js"), loadStyles("session.css")]);
  Object.assign(ui, { reload, screen });
  return sessionPage;
}

async function withCharts(script) {
  const [{ page }] = await Promise.all([script, loadStyles("vendor/uplot/uplot.css"), loadStyles("charts.css")]);
  return page;
}

const loaded = new Map(); // by name: the function that draws the page, or {words} until it is there

const loading = () => html`<p class="empty">Loading.</p>`;
const lost = () => html`<p class="problem">A part of this page could not be loaded. <a href=${location.href} @click=${() => location.reload()}>Load it again</a></p>`;

export function pageBeside(name) {
  const [title, load] = PAGES[name];
  if (!loaded.has(name)) {
    loaded.set(name, { words: loading });
    const take = (found) => {
      loaded.set(name, found);
      ui.drawNow();
    };
    load().then(take, () => take({ words: lost }));
  }
  const found = loaded.get(name);
  if (typeof found === "function") return found();
  return html`<section class="page" aria-labelledby="page-title"><header class="page-head">
    <a class="act back" href="#/" aria-label="Back to the list">←</a><h2 id="page-title" tabindex="-1">${title}</h2></header>${found.words()}</section>`;
}
