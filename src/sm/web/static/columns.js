// The columns of the list: those that the person chose, that hold a value, and for which there is room.

import { keepView, lines, rowOf, state } from "./state.js";
import { setProperty } from "./styles.js";

// Widths in rem. The last one of the optional columns goes first when there is no room.
const OPTIONAL = { cost: 8, context: 6.5, done: 3, tokens: 4, model: 6.5 };
const ORDER = ["done", "context", "cost", "tokens", "model"];
const GAP = 0.75;
const NAME_MIN = 12;
const NAME_MAX = 30; // a longer name is cut, and is its title
const TASK_MIN = 14;
const TASK_LEAST = 7; // where names need the rest
const AGE = 3.4; // of a status
const BRANCH_CHARACTER = 0.61; // of the monospaced font
const AROUND_NAME = 5; // the sign of a branch, the sign of the status and their gaps

const narrow = matchMedia("(max-width: 760px), (max-height: 480px)");
const rem = parseFloat(getComputedStyle(document.documentElement).fontSize) || 15;
const ink = document.createElement("canvas").getContext("2d");
const widths = new Map(); // of names, in rem
let measured = { frame: -1, place: null, name: NAME_MIN, tagged: NAME_MIN, status: 6 };

const titleOf = (name) => name[0].toUpperCase() + name.slice(1);

function widthOf(text) {
  if (!widths.has(text)) {
    if (widths.size > 2000) widths.clear();
    ink.font = `15px ${getComputedStyle(document.documentElement).fontFamily}`;
    widths.set(text, ink.measureText(text).width / 15);
  }
  return widths.get(text);
}

const tagWidth = (tag) => Math.min(8, widthOf(tag) * 0.8 + 1.2);

/** The widths that show all names and states in full, in whole rem so that columns rarely move. `tagged`: with workspaces. */
function neededWidths() {
  if (measured.frame === state.frame && measured.place === state.workspace) return measured;
  let [name, tagged, status] = [NAME_MIN, NAME_MIN, 6];
  for (const [id, branch, folded, depth] of lines()) {
    const row = rowOf(id);
    if (row === undefined) continue;
    const tags = [...(row.badges ?? []), ...(folded ? [`+${folded}`] : []), ...(row.held ? ["✉0"] : [])];
    const own = branch.length * BRANCH_CHARACTER + AROUND_NAME + widthOf(row.label) * (row.urgency < 2 ? 1.08 : 1) + tags.reduce((sum, tag) => sum + tagWidth(tag), 0);
    name = Math.max(name, own);
    tagged = Math.max(tagged, own + (row.workspace && depth === 0 && !state.workspace ? tagWidth(`@${row.workspace}`) : 0));
    status = Math.max(status, widthOf(row.word) * (row.urgency === 0 ? 1.1 : 1) + AGE);
  }
  measured = { frame: state.frame, place: state.workspace, name: Math.ceil(name), tagged: Math.ceil(tagged), status: Math.ceil(status) };
  return measured;
}

const isChosen = (name) => !state.look.hidden.has(name);
const isFilled = (name) => state.columns === null || state.columns.includes(name);

/** The optional columns in a list of this width in pixels, and whether names are cut. */
function fitting(pixels) {
  const wanted = Object.keys(OPTIONAL).filter((name) => isChosen(name) && isFilled(name));
  setProperty("--task", "block");
  if (narrow.matches) return { names: wanted.filter((name) => name === "cost"), isTight: false };
  const { name, tagged, status } = neededWidths();
  const room = pixels / rem - status - 4 * GAP; // of the name, the task and the optional columns
  const used = () => wanted.reduce((sum, each) => sum + OPTIONAL[each] + GAP, 0);
  while (wanted.length && Math.min(name, NAME_MAX) + TASK_MIN + used() > room) wanted.pop();
  if (wanted.length === 0 && Math.min(name, NAME_MAX) + TASK_LEAST > room) {
    // A few letters of the task are worth less than whole names.
    setProperty("--task", "none");
    setProperty("--columns", `minmax(0, 1fr) ${status.toFixed(2)}rem`);
    return { names: [], isTight: tagged > room };
  }
  const most = wanted.length ? NAME_MAX : Math.max(room * 0.6, Math.min(NAME_MAX, room - TASK_LEAST));
  const isTight = Math.min(tagged, NAME_MAX) + TASK_MIN + used() > room;
  const given = Math.min(isTight ? name : tagged, most);
  const names = ORDER.filter((each) => wanted.includes(each));
  const sizes = [given, status, ...names.map((each) => OPTIONAL[each])].map((width) => `${width.toFixed(2)}rem`);
  setProperty("--columns", `${sizes.join(" ")} minmax(0, 1fr)`);
  return { names, isTight };
}

let shown = [];

/** Choose the columns for a list of this width in pixels. */
export function chooseColumns(pixels) {
  const found = fitting(pixels);
  shown = found.names;
  return found;
}

export const columnTitles = (names) => ["session", "status", ...names, "task"].map((name) => [name, titleOf(name)]);

/** The optional columns for the menu, each with the reason why it is not in sight. */
export const columnChoices = () =>
  ORDER.map((name) => {
    const missing = !isFilled(name) ? "empty" : narrow.matches || shown.includes(name) ? "" : "no room";
    return { name, title: titleOf(name), chosen: isChosen(name), missing: isChosen(name) ? missing : "" };
  });

export function chooseColumn(name, isWanted) {
  if (isWanted) state.look.hidden.delete(name);
  else state.look.hidden.add(name);
  keepView();
}
