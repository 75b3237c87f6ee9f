"""Rewrites what Claude Code shows and reports, as a later release would word it. Pure; see `wrapper`."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(
    r"(?P<title>\x1b\][02];(?P<text>[^\x07\x1b]*)(?:\x07|\x1b\\))"
    r"|(?P<quiet>\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_].*?\x1b\\|\x1b\[[0-9;:]*m)"
    r"|(?P<blank>\x1b\[\d*[CG])"
    r"|(?P<move>\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])|[\x00-\x1f\x7f])"
    r"|(?P<sign>.)",
    re.DOTALL,
)
"""claude draws most blanks by moving the cursor one column on."""
_INCOMPLETE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*|[PX^_][^\x1b]*)?\Z")

_ROW_END = "\n"


def complete_part(text: str) -> tuple[str, str]:
    """Divide output into the part whose escape sequences are complete, and the rest."""
    found = _INCOMPLETE.search(text)
    return (text, "") if found is None else (text[: found.start()], text[found.start() :])


def rewrite_screen(output: str, words: Mapping[str, str], title: Callable[[str], str] | None = None) -> str:
    """Replace words on the screen, and the title. Each row keeps its width: `words` have values of the same length."""
    tokens = [(found.lastgroup or "", found[0], found) for found in _TOKEN.finditer(output)]
    kinds = ["title" if kind == "text" else kind for kind, _, _ in tokens]
    parts = [part for _, part, _ in tokens]
    if title is not None:
        for at, (kind, (_, _, found)) in enumerate(zip(kinds, tokens, strict=True)):
            if kind == "title":
                parts[at] = (
                    found["title"].replace(found["text"], title(found["text"])) if found["text"] else ""
                )
    seen, places = [], []
    for at, kind in enumerate(kinds):
        if kind in ("title", "quiet"):
            continue
        seen.append(parts[at] if kind == "sign" else " " if kind == "blank" else _ROW_END)
        places.append(at)
    text = "".join(seen).replace("\N{NO-BREAK SPACE}", " ")
    for old, new in words.items():
        if len(old) != len(new) or any(unicodedata.east_asian_width(sign) in "WF" for sign in old + new):
            raise ValueError(f"{new!r} is not as wide as {old!r}")
        start = text.find(old)
        while start >= 0:
            for number, sign in enumerate(new):
                if sign != old[number]:
                    parts[places[start + number]] = sign
            text = text[:start] + new + text[start + len(old) :]
            start = text.find(old, start + len(old))
    return "".join(parts)


def rename_key(value: Any, old: str, new: str) -> Any:
    """Rename a key in a JSON value. `old`: a path of keys such as `tasks.type`, also through lists of objects."""
    if isinstance(value, list):
        return [rename_key(item, old, new) for item in value]
    if not isinstance(value, dict):
        return value
    key, dot, rest = old.partition(".")
    if dot:
        return {name: rename_key(item, rest, new) if name == key else item for name, item in value.items()}
    return {new if name == key else name: item for name, item in value.items()}


def replace_value(value: Any, path: str, words: Mapping[str, str]) -> Any:
    """Replace texts in a JSON value that are keys of `words`. `path`: as `old` of `rename_key`."""
    if isinstance(value, list):
        return [replace_value(item, path, words) for item in value]
    if not isinstance(value, dict):
        return value
    key, dot, rest = path.partition(".")
    if dot:
        return {
            name: replace_value(item, rest, words) if name == key else item for name, item in value.items()
        }
    return {
        name: words.get(item, item) if name == key and isinstance(item, str) else item
        for name, item in value.items()
    }
