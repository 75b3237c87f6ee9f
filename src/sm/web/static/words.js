// The words that the page forms itself: ages, times and amounts, as core/timestamps.py and core/figures.py do.
// All other words come from the server.

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

/** `10s`, `5min`, `2h` or `3d`, rounded down. */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, unit] of UNITS) if (whole >= size) return `${Math.floor(whole / size)}${unit}`;
  return `${whole}s`;
}

const INVISIBLE = /[\p{C}\p{Z}]/gu;

/** Text of an agent with code points in place of invisible characters, as core/quotation.py does. */
export function visible(text) {
  return String(text ?? "").replace(INVISIBLE, (c) =>
    c === " " ? c : `<U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`,
  );
}

/** A line of a file: as `visible`, with its tabs. */
export const visibleCode = (text) => text.split("\t").map(visible).join("\t");

/** Text of an agent in one line. */
export const shown = (text, limit = 500) => {
  const words = [...String(text ?? "")];
  return visible(words.slice(0, limit).join("").replaceAll("\n", "⏎")) + (words.length > limit ? "…" : "");
};

/** Text of an agent with its lines. */
export const shownLines = (text) => String(text ?? "").split("\n").map(visible).join("\n");

/** `15:10` today, `2026-01-26 15:10` on another day, in local time. */
export function clock(at, seconds = false) {
  const date = at instanceof Date ? at : new Date(typeof at === "number" ? at * 1000 : at);
  const two = (number) => String(number).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}${seconds ? `:${two(date.getSeconds())}` : ""}`;
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

export const dollars = (cost) =>
  cost == null ? "-" : `$${cost.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;

/** Input and output together: `950`, `12k`, `3.4M` or `1.2G`. */
export function tokens(counted) {
  if (counted == null) return "-";
  const count = typeof counted === "number" ? counted : counted.input + counted.output;
  if (count < 1000) return String(count);
  if (count < 1_000_000) return `${Math.floor(count / 1000)}k`;
  return count < 1e9 ? `${(count / 1_000_000).toFixed(1)}M` : `${(count / 1e9).toFixed(1)}G`;
}
