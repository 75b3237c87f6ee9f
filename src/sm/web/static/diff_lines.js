// Reads the output of `git diff` for one file as rows, and finds what changed within lines. Pure.

import { diffWordsWithSpace, lowlight } from "./vendor/code/code.js";

const HUNK = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/;
const WORDS_MAX = 500; // characters of a line whose words are compared
const COLOURED_MAX = 20_000; // characters that are coloured at a time
const LANGUAGES = {
  bash: "sh bash zsh", c: "c h", cpp: "cc cpp cxx hh hpp", csharp: "cs", css: "css scss less", go: "go", ini: "ini toml cfg conf",
  java: "java", javascript: "js mjs cjs jsx", json: "json webmanifest", kotlin: "kt kts", lua: "lua", markdown: "md markdown", php: "php",
  python: "py pyi", ruby: "rb", rust: "rs", sql: "sql", swift: "swift", typescript: "ts tsx mts", xml: "xml html htm svg vue", yaml: "yml yaml",
};
const BY_ENDING = new Map(Object.entries(LANGUAGES).flatMap(([name, endings]) => endings.split(" ").map((ending) => [ending, name])));
const BY_NAME = new Map([["Makefile", "makefile"], ["Dockerfile", "dockerfile"]]);

/** The language of a file by its name; undefined: none that is known. */
export function languageOf(path) {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return BY_NAME.get(name) ?? BY_ENDING.get(name.slice(name.lastIndexOf(".") + 1).toLowerCase());
}

/**
 * The rows of a file: {i, kind, text, old, now, pair}. `kind` is "@" for a header of a hunk, "\\" for a remark of git, else
 * the sign of the line. Only the numbers in a header decide which lines follow: an agent can write lines that look like
 * headers.
 */
export function rowsOf(patch) {
  const rows = [];
  let [old, oldEnd, now, nowEnd] = [0, 0, 0, 0];
  const add = (kind, text, more = {}) => rows.push({ i: rows.length, kind, text, old: null, now: null, pair: null, ...more });
  const lines = patch.endsWith("\n") ? patch.slice(0, -1).split("\n") : patch.split("\n");
  for (const line of lines) {
    const sign = line[0] ?? " ";
    const found = old < oldEnd || now < nowEnd ? null : HUNK.exec(line);
    if (sign === "\\") {
      if (rows.length) add("\\", line);
    } else if (old < oldEnd || now < nowEnd) {
      const kind = sign === "+" || sign === "-" ? sign : " ";
      add(kind, line.slice(1), { old: kind === "+" ? null : old++, now: kind === "-" ? null : now++ });
    } else if (found) {
      [old, now] = [Number(found[1]), Number(found[3])];
      [oldEnd, nowEnd] = [old + Number(found[2] ?? 1), now + Number(found[4] ?? 1)];
      add("@", line);
    }
  }
  pairUp(rows);
  return rows;
}

/** Pair deleted lines with the added ones that stand in their place, in their order. */
function pairUp(rows) {
  let removed = [];
  let place = 0;
  for (const row of rows) {
    if (row.kind === "-") {
      if (place) [removed, place] = [[], 0];
      removed.push(row);
    } else if (row.kind === "+" && place < removed.length) {
      const other = removed[place++];
      [row.pair, other.pair] = [other, row];
    } else if (row.kind === " " || row.kind === "@") [removed, place] = [[], 0];
  }
}

/** The rows side by side: {left, right}, of which one may be null, or {whole} for a header or a remark. */
export function sideBySide(rows) {
  const found = [];
  for (const row of rows) {
    if (row.kind === "@" || row.kind === "\\") found.push({ whole: row });
    else if (row.kind === " ") found.push({ left: row, right: row });
    else if (row.kind === "-") found.push({ left: row, right: row.pair });
    else if (row.pair === null) found.push({ left: null, right: row });
  }
  return found;
}

/** The parts of a line that changed, as [begin, end]. */
export function changedWords(row) {
  if (row.pair === null) return [];
  row.words ??= compared(row);
  return row.words;
}

function compared(row) {
  const [before, after] = row.kind === "-" ? [row.text, row.pair.text] : [row.pair.text, row.text];
  if (before.length > WORDS_MAX || after.length > WORDS_MAX) return [];
  const parts = diffWordsWithSpace(before, after, { maxEditLength: 40 }) ?? [];
  const found = [];
  let [at, same] = [0, 0];
  for (const { value, added, removed } of parts) {
    if (row.kind === "-" ? added : removed) continue;
    if (added || removed) found.push([at, at + value.length]);
    else same += value.trim().length;
    at += value.length;
  }
  return same * 3 < row.text.trim().length ? [] : found; // another line, not a changed one
}

/** The colours of lines of one language: for each line a list of [text, name of the kind]. null: they have none. */
export function coloured(language, lines) {
  const text = lines.join("\n");
  if (language === undefined || text.length > COLOURED_MAX) return null;
  const found = [[]];
  const walk = (node, kind) => {
    if (node.type === "text") {
      node.value.split("\n").forEach((piece, place) => {
        if (place) found.push([]);
        if (piece) found.at(-1).push([piece, kind]);
      });
    } else for (const child of node.children) walk(child, kindOf(node) ?? kind);
  };
  walk(lowlight.highlight(language, text), "");
  return found;
}

const KIND = /^hljs-[a-z_]+$/;
const kindOf = (node) => node.properties?.className?.find((name) => KIND.test(name));

/** Cut runs of colours at the borders of changed words: [text, kind, is changed]. */
export function cutRuns(runs, words) {
  const found = [];
  let at = 0;
  for (const [text, kind] of runs) {
    let left = text;
    while (left) {
      const inside = words.find(([begin, end]) => begin <= at && at < end);
      const next = words.find(([begin]) => begin > at);
      const border = inside ? inside[1] : (next?.[0] ?? Infinity);
      const piece = left.slice(0, border - at);
      found.push([piece, kind, inside !== undefined]);
      left = left.slice(piece.length);
      at += piece.length;
    }
  }
  return found;
}
