// Tells a person what newly needs them: the count in the title, the words for screen readers, a notice of the system.

import { state } from "./state.js";
import { go, sessionPath, tell, ui } from "./ui.js";

const told = new Set();
let first = true;
const KEPT = 2000;

const id = (need) => `${need.key} ${need.digest ?? ""}`;

let counted = null; // the count in the title

function tellCount() {
  if (counted === state.titleCount) return;
  counted = state.titleCount;
  document.title = counted ? `(${counted}) sm` : "sm";
  navigator.setAppBadge?.(counted).catch(() => {});
}

/** Call after each frame. Each entry is told once, and those of the first frame not at all. */
export function tellNews() {
  tellCount();
  const news = state.needs.filter((need) => need.kind !== "done" && !told.has(id(need)));
  for (const need of news) told.add(id(need));
  while (told.size > KEPT) told.delete(told.values().next().value);
  if (first) {
    first = false;
    return;
  }
  if (news.length === 0) return;
  speak(news.map((need) => `${need.label}: ${need.text}`).join(". "));
  if (looksHere() || !("Notification" in window) || Notification.permission !== "granted") return;
  for (const need of news.slice(0, 3)) show(need);
}

function looksHere() {
  return !document.hidden && document.hasFocus();
}

function show(need) {
  try {
    const notice = new Notification(`sm: ${need.label}`, { body: need.text, tag: need.key, icon: "/static/icon.svg" });
    notice.onclick = () => {
      focus();
      notice.close();
      go(need.session_id ? sessionPath(need.session_id) : "#/");
    };
  } catch {
    // Some phones allow notices only from a service worker; the count in the title is still there.
  }
}

export function speak(words) {
  document.getElementById("speaker").textContent = words;
}

// Each look at `Notification.permission` asks another process of the browser and waits for it.
let permission = "Notification" in window ? Notification.permission : "denied";

export const canAsk = () => permission === "default";

export async function askPermission() {
  const answer = await Notification.requestPermission();
  permission = answer;
  tell(answer === "granted" ? "this browser will tell you what needs you" : "the browser does not allow notices");
  ui.draw();
}
