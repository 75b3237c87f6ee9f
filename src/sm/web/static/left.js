// When the person last left this page, for the range "since I left" of charts.

const KEY = "sm.seen";
const AWAY_MS = 5 * 60_000; // a shorter absence is a look at another tab
const NOTE_MS = 60_000; // a browser that crashes tells nothing

const read = () => {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
};

/** Note that the page is in sight, and first whether the person comes back to it. */
function note() {
  const { seen, left } = read();
  const now = Date.now();
  localStorage.setItem(KEY, JSON.stringify({ seen: now, left: seen && now - seen > AWAY_MS ? seen : left }));
}

/** The time in seconds since the epoch, or null if this browser has shown the page only once. */
export const leftS = () => {
  const { left } = read();
  return left ? left / 1000 : null;
};

export function watchLeaving() {
  const noteIfShown = () => document.hidden || note();
  noteIfShown();
  document.addEventListener("visibilitychange", note);
  addEventListener("pagehide", noteIfShown);
  setInterval(noteIfShown, NOTE_MS);
}
