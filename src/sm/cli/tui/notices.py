"""Escape sequences that make a terminal show a notice of the desktop. Pure."""

from collections.abc import Mapping

from sm.core.text import folded

_TEXT_MAX = 120


def notice_sequence(environ: Mapping[str, str], text: str) -> str:
    """The sequence that the terminal understands; terminals that know neither ignore it.

    OSC 777 of rxvt-unicode, which foot and terminals with VTE also know, or OSC 9 of iTerm2 for all others. Only one of
    them, because some terminals know both and would show two notices.
    """
    shown = folded(text, _TEXT_MAX)
    if "VTE_VERSION" in environ or environ.get("TERM", "").startswith(("rxvt", "foot")):
        return f"\x1b]777;notify;sm;{shown.replace(';', ',')}\x07"
    return f"\x1b]9;{shown}\x07"
