// The terminals of sessions that were looked at: one of them follows its agent, others stand still.

import { get } from "./api.js";
import { TerminalView } from "./terminal.js";
import { ui } from "./ui.js";

const KEPT = 8;

/** The terminal of the session whose page is open. */
class Screen {
  session = null; // that is followed
  shown = null; // the session whose terminal is shown, also of one that has ended
  over = false;
  updates = 0;
  #views = new Map(); // by the session, the latest last

  /** The terminal of a session, with the place that it had. */
  view(session) {
    this.shown = session;
    const view = this.#views.get(session) ?? new TerminalView(async (lines) => (await get(`/v1/sessions/${encodeURIComponent(session)}/output`, { lines, seen: 1 })).lines);
    this.#views.delete(session);
    this.#views.set(session, view);
    for (const [id, other] of this.#views) {
      if (this.#views.size <= KEPT) break;
      other.forget();
      this.#views.delete(id);
    }
    return view;
  }

  get element() {
    return this.view(this.session).element;
  }

  find() {
    this.view(this.shown).find.open();
  }

  /** Follow the screen of a session. */
  open(session, label = "") {
    this.view(session).label = `Terminal of ${label}`;
    if (session === this.session) return;
    this.close();
    this.session = session;
    this.updates = 0;
    delete this.element.dataset.updates;
    this.ask();
  }

  /** Ask the server for the stream, also after a reconnect. */
  ask() {
    if (this.session !== null && !document.hidden) ui.connection?.send({ t: "open", channel: "screen", session: this.session });
  }

  pause() {
    if (this.session !== null) ui.connection?.send({ t: "close", channel: "screen", session: this.session });
  }

  close() {
    this.pause();
    this.session = null;
    this.over = false;
  }

  take(frame) {
    if (frame.session !== this.session) return;
    const view = this.view(frame.session);
    const rows = Array.isArray(frame.rows) ? frame.rows.map(({ row, runs }) => [row, runs]) : Object.entries(frame.rows ?? {});
    if (frame.trouble) view.tell(frame.trouble);
    else view.take(rows, frame.height ?? frame.size?.[1] ?? 0);
    if (frame.over && !this.over) {
      this.over = true;
      ui.draw();
    }
    this.updates += 1;
    view.element.dataset.updates = this.updates;
  }
}

export const screen = new Screen();
