// What is open in this tab: the route, a dialog, the bar of an undo, the words of the last act.

const INPUTS = "sm.inputs";

function keptInputs() {
  try {
    return JSON.parse(sessionStorage.getItem(INPUTS)) ?? [];
  } catch {
    return [];
  }
}

/** Keep what is typed for requests over a reload of this tab. */
export function keepInputs() {
  const typed = [...ui.inputs].filter(([, { text, words, picks }]) => text || words.some(Boolean) || picks.length);
  sessionStorage.setItem(INPUTS, JSON.stringify(typed));
}

export const ui = {
  draw: () => {}, // set by main.js: draw soon
  drawNow: () => {},
  connection: null,
  route: { page: "board", session: null, tab: "peek" },
  dialog: null,
  toast: null, // {words, bad}
  undo: null, // {name, session, label, until}
  inputs: new Map(keptInputs()), // what is typed for requests: key -> {open: the form of a denial is, text, words, picks: of the answers}
  opened: new Set(), // lines of the queue that are unfolded
  ghosts: new Map(), // lines of the queue that have passed: key -> {need, words, at}
  answered: new Set(), // requests that are being answered here
  changes: null, // the tab with the changes, which changes.js sets
  screen: null, // the terminal of the open session, and what loads its data again: set when a session is opened first
  reload: () => {},
};

export const TABS = ["peek", "actions", "changes", "messages", "events", "why", "requests", "children"];

export function readRoute(hash) {
  const [, page = "", first = "", second = ""] = hash.split("/");
  if (page === "s" && first) {
    const tab = TABS.includes(second) ? second : "peek";
    return { page: "session", session: decoded(first), tab };
  }
  if (page === "events") return { page, session: null, tab: "", ...eventPlace(first, second) };
  if (["spend", "timeline", "earlier"].includes(page)) return { page, session: null, tab: "" };
  return { page: "board", session: null, tab: "" };
}

/** The text of a part of the address, or the part itself if its escapes are malformed. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** True if the page that is open needs the width: the list is beside it in a wide window only. */
export const isWide = () => ui.route.tab === "changes" || ["spend", "timeline"].includes(ui.route.page);

/** The server takes no other ids. */
export const isId = (text) => /^[A-Za-z0-9-]{1,64}$/.test(text);

export const go = (path) => {
  location.hash = path;
};
export const sessionPath = (id, tab = "peek") => `#/s/${encodeURIComponent(id)}/${tab}`;

export function tell(words, bad = false) {
  ui.toast = { words, bad, at: performance.now() };
  ui.draw();
}

/** Focus the first element that matches, after the next drawing. */
export function focusSoon(selector) {
  ui.drawNow();
  document.querySelector(selector)?.focus();
}

/** `#/events/12` leads to an event, `#/events/@1769526000/1a2b3c4d` to the first one of a session since a time. */
function eventPlace(first, second) {
  if (/^\d{1,15}$/.test(first)) return { seq: Number(first) };
  if (/^@\d{1,11}(\.\d{1,9})?$/.test(first) && isId(second)) return { at: Number(first.slice(1)), of: second };
  return {};
}
