// The tabs of sessions that were looked at. Each keeps what it shows, its place and the selected text.

const KEPT = 24;
const panels = new Map(); // by `session tab`, the latest last
let current = null;

/** The tab `name` of a session: {key, element, data, error, at, row, busy} and its place. */
export function panelOf(session, name) {
  const key = `${session} ${name}`;
  const panel = panels.get(key) ?? newPanel(key);
  panels.delete(key);
  panels.set(key, panel);
  if (panels.size > KEPT) panels.delete(panels.keys().next().value);
  return panel;
}

function newPanel(key) {
  const element = document.createElement("div");
  element.className = "panel-content";
  return { key, element, data: null, error: "", at: 0, row: null, busy: false, top: 0, selection: null };
}

/** Call while the page is drawn: it still shows the panel before, and takes the place of this one behind the drawing. */
export function showPanel(panel) {
  if (current === panel) return;
  leavePanel();
  current = panel;
  queueMicrotask(() => {
    if (current === panel) arrive(panel);
  });
}

/** Keep the place of the panel that is shown. */
export function leavePanel() {
  const host = document.getElementById("tab-panel");
  if (current === null || host === null) return;
  const selection = getSelection();
  const isInside = !selection.isCollapsed && host.contains(selection.anchorNode) && host.contains(selection.focusNode);
  const { anchorNode, anchorOffset, focusNode, focusOffset } = selection;
  current.selection = isInside ? [anchorNode, anchorOffset, focusNode, focusOffset] : null;
  current.top = scroller(host).scrollTop;
  current = null;
}

/** Ask for the data of all panels again, when they are shown next. */
export function markOld() {
  for (const panel of panels.values()) Object.assign(panel, { at: 0, row: null });
}

function arrive(panel) {
  const host = document.getElementById("tab-panel");
  if (host === null) return;
  const element = scroller(host);
  // At the top, the page stays where it is: its head is in sight.
  if (element === host || panel.top > 0) element.scrollTop = panel.top;
  const nodes = panel.selection;
  if (nodes !== null && host.contains(nodes[0]) && host.contains(nodes[2])) getSelection().setBaseAndExtent(...nodes);
}

/** What scrolls: the panel, or the whole page if that is narrow. */
const scroller = (host) => (getComputedStyle(host).overflowY === "visible" ? document.scrollingElement : host);

addEventListener("hashchange", leavePanel); // before the page is drawn for the new address
