// A chart over time, drawn by uPlot: axes in local time, values at the pointer and at the keys, and a zoom.

import { uPlot } from "./vendor/uplot/uplot.js";
import { zoomBack, zoomIn, zoomTo, chosen } from "./chart_range.js";

const FONT = '12px system-ui, "DejaVu Sans", sans-serif';
const DRAG_PX = 6;
const TICK_PX = 76;
const EDGE_PX = 8; // on the right of a chart, as of the lanes
// The half of a time and of a day in a label.
const TIME_PX = 18;
const DAY_PX = 38;

/** A colour of app.css, as it is now: dark or light. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const two = (number) => String(number).padStart(2, "0");
const dayOf = (date) => date.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short" });

/** The labels of ticks in local time, with the date where the day changes. */
export function timeLabels(ticks) {
  const hasSeconds = ticks.some((at) => at % 60 !== 0);
  let day = "";
  return ticks.map((at) => {
    const date = new Date(at * 1000);
    const time = `${two(date.getHours())}:${two(date.getMinutes())}${hasSeconds ? `:${two(date.getSeconds())}` : ""}`;
    if (dayOf(date) === day) return time;
    day = dayOf(date);
    return `${time}\n${day}`;
  });
}

/** The labels without those that would be cut at the right edge. `rest`: the pixels from a time to the edge. */
function fittingLabels(ticks, labels, rest) {
  return labels.map((label, place) => {
    const room = rest(ticks[place]);
    const [time, day] = label.split("\n");
    if (room < TIME_PX * (time.length / 5)) return "";
    return day === undefined || room >= DAY_PX ? label : time;
  });
}

/** A small box with values beside the pointer. `lines`: [colour, text] each; a colour may be empty. */
export class Tip {
  constructor() {
    this.element = document.createElement("div");
    this.element.className = "tip";
    this.element.hidden = true;
  }

  /** Show lines at a place in the parent of the box. */
  show(lines, left, top) {
    this.element.replaceChildren(...lines.map(([name, text]) => {
      const line = document.createElement("div");
      if (name) {
        const sign = document.createElement("span");
        sign.className = `swatch swatch-${name}`;
        line.append(sign);
      }
      line.append(text);
      return line;
    }));
    this.element.hidden = false;
    const width = this.element.parentElement.clientWidth;
    const isRight = left > width / 2;
    this.element.style.left = isRight ? "auto" : `${left + 12}px`;
    this.element.style.right = isRight ? `${width - left + 12}px` : "auto";
    this.element.style.top = `${Math.max(0, top)}px`;
  }

  hide() {
    this.element.hidden = true;
  }
}

/** Keys that every chart has, besides those of its own: true if the key was one of them. */
export function zoomKey(key, at) {
  if (key === "+" || key === "=") zoomIn(at);
  else if ((key === "-" || key === "Backspace") && chosen.zooms.length) zoomBack();
  else return false;
  return true;
}

/** `label`: for screen readers; `hint`: the words below until a value is shown; `tell(part)`: the lines of a part, with
    `words` for screen readers; `options`: of uPlot. The element keeps its place in the page. */
export class TimeChart {
  constructor({ label, hint, height, tell }) {
    this.element = document.createElement("figure");
    this.element.className = "plot";
    this.element.tabIndex = 0;
    this.area = document.createElement("div");
    this.caption = document.createElement("figcaption");
    const words = document.createElement("span");
    words.setAttribute("role", "status");
    this.caption.append(words);
    this.words = words;
    this.element.append(this.area, this.caption);
    this.tip = new Tip();
    Object.assign(this, { plot: null, model: null, height, tell, hint, part: -1, isHeld: false, shape: "" });
    this.element.setAttribute("aria-label", label);
    this.say(hint);
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.plot?.setSize({ width: this.area.clientWidth, height })).observe(this.area);
    const redraw = () => this.plot?.redraw(false);
    new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: light)").addEventListener("change", redraw);
  }

  say(words) {
    if (this.words.textContent !== words) this.words.textContent = words;
  }

  /** `model`: {since, until, step, parts, top, data, series, left, amounts, draw}. */
  show(model) {
    if (this.isHeld || model === this.model) return; // a drag is under way
    this.model = model;
    const shape = JSON.stringify(model.series.map(({ name }) => name));
    if (this.plot !== null && shape === this.shape) {
      this.plot.setData(model.data);
    } else {
      this.plot?.destroy();
      this.shape = shape;
      this.plot = new uPlot(this.options(model), model.data, this.area);
      this.plot.over.append(this.tip.element);
    }
    this.element.plot = this.plot; // for tests
    if (this.part >= model.parts) this.part = -1;
  }

  options(model) {
    const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--line"), width: 1, size: 4 }, font: FONT };
    return {
      width: Math.max(200, this.area.clientWidth),
      height: this.height,
      padding: [10, EDGE_PX, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: true, y: false, setScale: false, dist: DRAG_PX }, points: { show: false }, y: false },
      scales: { x: { time: true, range: () => [this.model.since, this.model.until] }, y: { range: () => [0, this.model.top] } },
      axes: [
        { ...axis, space: TICK_PX, size: 40, values: (_, ticks) => this.labels(ticks) },
        { ...axis, size: model.left, values: (_, ticks) => ticks.map((tick) => this.model.amounts(tick)), incrs: model.incrs },
      ],
      series: [{}, ...model.series.map(({ options }) => options)],
      hooks: {
        ready: [(plot) => {
          plot.over.addEventListener("mousedown", () => {
            this.isHeld = true;
            addEventListener("mouseup", () => (this.isHeld = false), { once: true, capture: true });
          });
        }],
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          if (width < DRAG_PX) return;
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          this.isHeld = false;
          zoomTo(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
        }],
        setCursor: [(plot) => this.point(plot.cursor.left)],
        draw: [(plot) => this.model.draw?.(plot)],
      },
    };
  }

  labels(ticks) {
    const { since, until, left } = this.model;
    const width = this.area.clientWidth - left - EDGE_PX;
    return fittingLabels(ticks, timeLabels(ticks), (at) => ((until - at) / (until - since)) * width + EDGE_PX);
  }

  /** Show the values of the part below the pointer. */
  point(left) {
    if (left === null || left < 0) {
      this.tip.hide();
      return;
    }
    const { since, step, parts } = this.model;
    const part = Math.floor((this.plot.posToVal(left, "x") - since) / step);
    if (part < 0 || part >= parts) return;
    this.part = part;
    const lines = this.tell(part);
    this.tip.show(lines, left, 8);
    this.say(lines.map(([, text]) => text).join(", "));
  }

  /** The middle of a part in pixels of the chart. */
  place(part) {
    return this.plot.valToPos(this.model.since + (part + 0.5) * this.model.step, "x");
  }

  key(event) {
    if (this.plot === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const { since, step, parts } = this.model;
    const moves = { ArrowLeft: this.part - 1, ArrowRight: this.part < 0 ? parts - 1 : this.part + 1, Home: 0, End: parts - 1 };
    if (event.key in moves) {
      this.part = Math.min(Math.max(0, this.part < 0 && event.key === "ArrowLeft" ? parts - 1 : moves[event.key]), parts - 1);
      this.plot.setCursor({ left: this.place(this.part), top: 10 });
    } else if (!zoomKey(event.key, this.part < 0 ? null : since + (this.part + 0.5) * step)) return;
    event.preventDefault();
    event.stopPropagation();
  }
}

export { uPlot };
