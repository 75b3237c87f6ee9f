"""The width of text on a terminal. Pure."""


def columns(text: str) -> int:
    """Return the width of `text` on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int | None) -> str:
    """Cut `text` to at most `width` columns unless that is None."""
    if width is None or (text.isascii() and len(text) <= width):
        return text
    used = kept = 0
    for number, character in enumerate(text):
        used += columns(character)
        if used > width:
            return text[:kept] + "…"
        if used < width:
            kept = number + 1
    return text
