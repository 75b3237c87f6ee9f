// What the page knows: the newest state from the server, and what this tab has chosen. Nothing is decided here.

const VIEW = "sm.view";
const kept = (() => {
  try {
    return JSON.parse(localStorage.getItem(VIEW)) ?? {};
  } catch {
    return {};
  }
})();

export const state = {
  phase: "connecting", // login, connecting, live or lost
  notice: "",
  hello: null,
  rows: new Map(),
  ghosts: new Map(), // removed rows that still have a line until the list rests
  layout: [],
  columns: null, // the optional columns that hold a value; null until they are known
  placed: "", // the workspace of `layout`
  needs: [],
  chips: [],
  offers: {}, // by workspace: the actions that need no session
  summary: "",
  quietSince: null,
  earlier: "", // how many sessions have no row
  waiting: 0, // new rows that wait for a place
  loading: true,
  daemonLostSince: null,
  daemonLostReason: null,
  unshown: "", // the news that the server cannot show, and why
  problems: [],
  titleCount: 0,
  revision: null,
  frame: 0, // counts the frames that were taken
  at: 0, // the daemon's time of the last frame
  receivedAt: 0, // performance.now() of the last frame
  lostAt: null, // performance.now() of the loss
  details: new Map(),
  workspace: kept.workspace ?? "",
  view: {
    sort: kept.sort ?? null,
    filter: kept.filter ?? "",
    archived: kept.archived ?? false,
    folded: new Set(kept.folded ?? []),
  },
  look: { hidden: new Set(kept.hidden ?? []), split: kept.split ?? {} }, // hidden columns, and the parts of the list
  selected: null,
  version: null,
};

export function keepView() {
  const { sort, filter, archived, folded } = state.view;
  const { hidden, split } = state.look;
  const view = { workspace: state.workspace, sort, filter, archived, folded: [...folded].slice(-1000), hidden: [...hidden], split };
  localStorage.setItem(VIEW, JSON.stringify(view));
}

/** The daemon's time in seconds. It stands still while the connection or the daemon is lost. */
export function nowS() {
  if (!state.receivedAt) return 0;
  if (state.daemonLostSince != null) return state.daemonLostSince;
  return state.at + ((state.lostAt ?? performance.now()) - state.receivedAt) / 1000;
}

/** The age of the shown data in seconds; null: it is fresh. */
export function staleForS() {
  const clock = performance.now();
  const sinceFrame = (clock - state.receivedAt) / 1000;
  if (state.lostAt !== null) return (clock - state.lostAt) / 1000 + (state.daemonLostSince == null ? 0 : lostBefore());
  return state.daemonLostSince == null ? null : sinceFrame + lostBefore();
}

// The server names the time of the loss by the clock of `at`.
const lostBefore = () => Math.max(0, state.at - state.daemonLostSince);

const parts = []; // of a state that comes in several frames

/** Take a frame; return whether the state is complete with it. */
export function takeBoard(frame) {
  parts.push(frame);
  if (frame.more) return false;
  for (const part of parts.splice(0)) takePart(part);
  state.frame += 1;
  state.receivedAt = performance.now();
  state.lostAt = null;
  state.phase = "live";
  if (state.workspace && !state.loading && !state.chips.some((chip) => chip.slug === state.workspace)) state.workspace = "";
  return true;
}

/** Forget the frames of a state that was not complete when the connection ended. */
export const dropParts = () => parts.splice(0);

function takePart(frame) {
  if (frame.snapshot) {
    state.rows = new Map();
    state.ghosts = new Map();
  }
  for (const [id, fields] of Object.entries(frame.rows ?? {})) {
    state.rows.set(id, { ...state.rows.get(id), ...fields, id });
    state.ghosts.delete(id);
  }
  for (const id of frame.gone ?? []) {
    const row = state.rows.get(id);
    if (row !== undefined) state.ghosts.set(id, row);
    state.rows.delete(id);
    state.details.delete(id); // the server reads it again if it is selected
  }
  for (const [name, key] of Object.entries(FIELDS)) if (name in frame) state[key] = frame[name];
}

const FIELDS = {
  at: "at",
  rev: "revision",
  needs: "needs",
  chips: "chips",
  offers: "offers",
  summary: "summary",
  quiet_since: "quietSince",
  workspace: "placed",
  layout: "layout",
  columns: "columns",
  waiting: "waiting",
  filter_problems: "problems",
  earlier: "earlier",
  lost_since: "daemonLostSince",
  lost_reason: "daemonLostReason",
  unshown: "unshown",
  title_count: "titleCount",
  loading: "loading",
};

/** The row of a session, also of one that is not in the list and whose page is open. */
export function rowOf(id) {
  const { row, problem } = state.details.get(id) ?? {};
  return state.rows.get(id) ?? row ?? (problem ? undefined : state.ghosts.get(id));
}

/** The lines of the chosen workspace. Until the server has placed its rows: those that have a line, then the others. */
export function lines() {
  if (state.placed === state.workspace) return state.layout;
  const isChosen = (id) => !state.workspace || rowOf(id)?.workspace === state.workspace;
  const placed = state.layout.filter(([id]) => isChosen(id));
  // The server answers at once, unless the connection is lost. Only it knows what a filter selects.
  if (state.phase === "live" || state.view.filter) return placed;
  const known = new Set(placed.map(([id]) => id));
  return [...placed, ...[...state.rows.keys()].filter((id) => isChosen(id) && !known.has(id)).map((id) => [id, "", 0, 0, 0])];
}

/** The sessions below one, as [row, depth], in the present order. */
export function below(id) {
  const places = new Map(state.layout.map(([lineId], place) => [lineId, place]));
  const placeOf = ({ id: rowId }) => places.get(rowId) ?? places.size;
  const children = new Map();
  for (const row of [...state.rows.values()].sort((a, b) => placeOf(a) - placeOf(b)))
    children.set(row.parent, [...(children.get(row.parent) ?? []), row]);
  const found = new Map([[id, null]]); // a cycle ends at a known session
  const add = (parent, depth) => {
    for (const row of children.get(parent) ?? []) {
      if (found.has(row.id)) continue;
      found.set(row.id, [row, depth]);
      add(row.id, depth + 1);
    }
  };
  add(id, 0);
  return [...found.values()].slice(1);
}

/** The labels of the live sessions below one, for the question of a kill. */
export const liveBelow = (id) => below(id).flatMap(([row]) => (row.live ? [row.label] : []));
