// Draws lines of a terminal as text nodes with styles, and makes links of addresses that are what they look like.

const FLAGS = new Set(["bold", "dim", "italic", "underline", "blink", "reverse", "hidden", "strike"]);
const COLOUR = /^(fg|bg):(?:(#[0-9a-f]{6})|([0-9]{1,3}))$/i;

function paletteColour(number) {
  if (number < 16) return `var(--ansi-${number})`;
  if (number >= 232) return `rgb(${Array(3).fill(8 + 10 * (number - 232)).join(" ")})`;
  const level = (index) => (index === 0 ? 0 : 55 + 40 * index);
  const cube = number - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}

// Visible ASCII only, so that no look-alike letter and no mark of the writing direction is in an address.
const ADDRESS = /\bhttps?:\/\/[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=%]+/g;
const GOES_ON = /^(?:[\p{L}\p{N}\p{M}\\]|<U\+)/u; // after it: a person would read a longer address

/** The address without what follows it in a sentence, or an empty text if it is no safe target. */
export function linkOf(found) {
  let address = found.replace(/[.,;:!?'*]+$/, "");
  while (/[)\]]$/.test(address) && count(address, /[)\]]/g) > count(address, /[([]/g)) address = address.slice(0, -1).replace(/[.,;:!?'*]+$/, "");
  const url = URL.canParse(address) ? new URL(address) : null;
  // `https://good.example@bad.example` leads to bad.example.
  return url && /^https?:$/.test(url.protocol) && !url.username && !url.password && url.host ? address : "";
}

const count = (text, pattern) => text.match(pattern)?.length ?? 0;

/** The nodes of a text. `isCut`: the line is full, so an address at its end may go on in the next line. */
function nodes(text, isCut) {
  const made = [];
  let at = 0;
  for (const { 0: found, index } of text.matchAll(ADDRESS)) {
    const rest = text.slice(index + found.length);
    const address = (isCut && !rest) || GOES_ON.test(rest) ? "" : linkOf(found);
    if (!address) continue;
    const link = document.createElement("a");
    Object.assign(link, { href: address, target: "_blank", rel: "noopener noreferrer", textContent: address });
    if (index > at) made.push(text.slice(at, index));
    made.push(link);
    at = index + address.length;
  }
  if (at < text.length) made.push(text.slice(at));
  return made;
}

function run([text, style], isCut) {
  const span = document.createElement("span");
  span.append(...nodes(text, isCut));
  let front = null;
  let back = null;
  const words = (style ?? "").split(" ");
  for (const word of words) {
    const [, side, exact, number] = COLOUR.exec(word) ?? [];
    if (FLAGS.has(word)) span.classList.add(`t-${word}`);
    else if (side) {
      const colour = exact ?? paletteColour(Math.min(255, Number(number)));
      if (side.toLowerCase() === "fg") front = colour;
      else back = colour;
    }
  }
  if (words.includes("reverse")) [front, back] = [back ?? "var(--screen-back)", front ?? "var(--screen-text)"];
  if (front) span.style.color = front;
  if (back) span.style.backgroundColor = back;
  return span;
}

/** The content of a line. `runs`: `[text, style]`; `columns`: the width of the terminal. */
export function lineNodes(runs, columns) {
  if (runs.length === 0) return ["\u00a0"];
  const isFull = cells(textOf(runs)) >= columns;
  return runs.map((entry, place) => run(entry, isFull && place === runs.length - 1));
}

/** An element with the content of a line that has no styles. */
export function plainLine(text) {
  const line = document.createElement("div");
  line.append(...(text ? nodes(text, false) : ["\u00a0"]));
  return line;
}

export const textOf = (runs) => runs.map(([text]) => text).join("");

const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/gu;
const NARROW = /[\p{M}\u200b-\u200d]/gu;

/** About how many cells of a terminal a text takes. */
export const cells = (text) => (/^[\x20-\x7e]*$/.test(text) ? text.length : [...text].length + count(text, WIDE) - count(text, NARROW));
