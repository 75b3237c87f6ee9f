// The lanes of the timeline on one canvas, and what is at a place of it.

import { colour } from "./chart.js";

const MARK_PX = 8;
const CLOSE_PX = 4;
const PIXELS_MAX = 16_000_000;

/** Height and colour of the spans of a status: what waits for the person is loud, all else is quiet. */
const LOOKS = {
  waiting_input: { name: "--yellow", part: 0.62, alpha: 1 },
  running: { name: "--green", part: 0.36, alpha: 0.55 },
  starting: { name: "--green", part: 0.2, alpha: 0.4 },
  spawned: { name: "--soft", part: 0.2, alpha: 0.5 },
  idle: { name: "--soft", part: 0.1, alpha: 0.8 },
  error: { name: "--red", part: 0.08, alpha: 0.9 },
  abandoned: { name: "--red", part: 0.08, alpha: 0.9 },
};
const OTHER = { name: "--line", part: 0.08, alpha: 1 };
const MARKS = { request: "--text", message: "--soft", checkpoint: "--accent" };

export class LaneCanvas {
  constructor(laneHeight) {
    this.element = document.createElement("canvas");
    this.element.className = "lanes";
    this.element.setAttribute("aria-hidden", "true");
    Object.assign(this, { laneHeight, view: null, ticks: [], width: 0, from: 0, to: 1 });
  }

  x(at) {
    return ((at - this.from) / Math.max(1, this.to - this.from)) * this.width;
  }

  at(x) {
    return this.from + (x / Math.max(1, this.width)) * (this.to - this.from);
  }

  /** Draw the lanes of a view. `ticks`: the times of the grid; `picked`: {lane, item} below the pointer, or null. */
  draw(view, ticks, picked) {
    const width = this.element.parentElement?.clientWidth ?? 0;
    if (width === 0) return;
    const height = Math.max(1, view.lanes.length * this.laneHeight);
    const ratio = Math.min(devicePixelRatio || 1, Math.sqrt(PIXELS_MAX / (width * height)));
    Object.assign(this, { view, ticks, width, from: view.since, to: view.until });
    const canvas = this.element;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const colours = new Map();
    const paint = (name) => {
      if (!colours.has(name)) colours.set(name, colour(name));
      return colours.get(name);
    };
    this.drawGrid(pen, paint, height);
    view.lanes.forEach((lane, place) => this.drawLane(pen, paint, lane, place));
    if (picked !== null) this.drawPicked(pen, paint, picked);
  }

  drawGrid(pen, paint, height) {
    pen.fillStyle = paint("--line");
    for (const tick of this.ticks) pen.fillRect(Math.round(this.x(tick)), 0, 1, height);
    pen.globalAlpha = 0.5;
    this.view.lanes.forEach((_, place) => pen.fillRect(0, (place + 1) * this.laneHeight - 1, this.width, 1));
    pen.globalAlpha = 1;
  }

  drawLane(pen, paint, lane, place) {
    const top = place * this.laneHeight;
    const middle = top + this.laneHeight / 2;
    for (const [status, start, end] of lane.spans) {
      const { name, part, alpha } = LOOKS[status] ?? OTHER;
      const left = this.x(start);
      const size = Math.max(2, part * this.laneHeight);
      pen.globalAlpha = alpha;
      pen.fillStyle = paint(name);
      pen.fillRect(left, middle - size / 2, Math.max(status === "waiting_input" ? 2 : 0.75, this.x(end) - left), size);
    }
    pen.globalAlpha = 1;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const last = {};
    const failed = [];
    for (const mark of lane.marks) {
      const [kind, at] = mark;
      if (this.view.failed.includes(kind)) {
        failed.push(at);
        continue;
      }
      const left = this.x(at);
      if (left - (last[kind] ?? -Infinity) < CLOSE_PX) continue; // one sign for several
      last[kind] = left;
      pen.font = kind === "request" ? "bold 13px system-ui, sans-serif" : "11px system-ui, sans-serif";
      pen.strokeStyle = paint("--ground"); // readable on every span
      pen.lineWidth = 3;
      pen.strokeText(this.view.signs[kind], left, middle);
      pen.fillStyle = paint(MARKS[kind] ?? "--soft");
      pen.fillText(this.view.signs[kind], left, middle);
    }
    for (const at of failed) {
      const left = Math.min(Math.max(9, this.x(at)), this.width - 9);
      pen.fillStyle = paint("--red");
      pen.fillRect(left - 9, top + 2, 18, this.laneHeight - 5);
      pen.fillStyle = paint("--ground");
      pen.font = "bold 15px system-ui, sans-serif";
      pen.fillText("✗", left, middle);
    }
  }

  drawPicked(pen, paint, { lane, item }) {
    const top = lane * this.laneHeight;
    pen.strokeStyle = paint("--text");
    pen.lineWidth = 1.5;
    const left = item.mark ? this.x(item.at) - MARK_PX : this.x(item.at);
    const width = item.mark ? 2 * MARK_PX : Math.max(3, this.x(item.end) - left);
    pen.strokeRect(left, top + 3, width, this.laneHeight - 7);
  }

  /** The spans and marks of a lane, by their times: {at, end, mark, status, kind, text, seq}. */
  items(lane) {
    const spans = lane.spans.map(([status, at, end, text]) => ({ at, end, status, text, mark: false }));
    const marks = lane.marks.map(([kind, at, text, seq]) => ({ at, end: at, kind, text, seq, mark: true }));
    return [...spans, ...marks].sort((one, other) => one.at - other.at);
  }

  /** What is at a place of the canvas, as {lane, item}: a mark before the span below it, a failure before both. */
  find(x, y) {
    const lane = Math.floor(y / this.laneHeight);
    const found = this.view?.lanes[lane];
    if (found === undefined) return null;
    const rank = ({ mark, kind }) => (!mark ? 0 : this.view.failed.includes(kind) ? 2 : 1);
    const near = this.items(found).filter((item) => item.mark ? Math.abs(this.x(item.at) - x) <= MARK_PX
      : this.x(item.at) <= x && x <= this.x(item.end) + 1);
    near.sort((one, other) => rank(other) - rank(one) || Math.abs(this.x(one.at) - x) - Math.abs(this.x(other.at) - x));
    const [item] = near;
    return item === undefined ? { lane, item: null } : { lane, item };
  }
}
