"""The width of text on a terminal. Pure."""


def columns(text: str) -> int:
    """Return the width of `text` on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
