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
  layouts: {},
  needs: [],
  chips: [],
  summary: "",
  quietSince: null,
  waiting: 0,
  daemonLostSince: null,
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
  selected: null,
  version: null,
};

export function keepView() {
  const { sort, filter, archived, folded } = state.view;
  const view = { workspace: state.workspace, sort, filter, archived, folded: [...folded].slice(-1000) };
  localStorage.setItem(VIEW, JSON.stringify(view));
}

/** The daemon's time in seconds. It stands still while the connection or the daemon is lost. */
export function nowS() {
  if (!state.receivedAt) return 0;
  if (state.daemonLostSince != null) return state.at;
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

export function takeBoard(frame) {
  if (frame.snapshot) {
    state.rows = new Map();
    state.ghosts = new Map();
  }
  for (const [id, row] of Object.entries(frame.rows ?? {})) {
    state.rows.set(id, { ...row, id });
    state.ghosts.delete(id);
  }
  for (const id of frame.gone ?? []) {
    const row = state.rows.get(id);
    if (row !== undefined) state.ghosts.set(id, row);
    state.rows.delete(id);
  }
  if (frame.layouts) state.layouts = frame.snapshot ? frame.layouts : { ...state.layouts, ...frame.layouts };
  if (frame.needs) state.needs = frame.needs;
  if (frame.chips) state.chips = frame.chips;
  if ("summary" in frame) state.summary = frame.summary;
  if ("quiet_since" in frame) state.quietSince = frame.quiet_since;
  if ("waiting" in frame) state.waiting = frame.waiting;
  if ("problems" in frame) state.problems = frame.problems ?? [];
  if ("lost_since" in frame) state.daemonLostSince = frame.lost_since;
  if ("title_count" in frame) state.titleCount = frame.title_count;
  state.revision = frame.rev;
  state.frame += 1;
  state.at = frame.at;
  state.receivedAt = performance.now();
  state.lostAt = null;
  state.phase = "live";
  if (state.workspace && !state.chips.some((chip) => chip.slug === state.workspace)) state.workspace = "";
}

export const lines = () => state.layouts[state.workspace] ?? [];
export const rowOf = (id) => state.rows.get(id) ?? state.ghosts.get(id);
