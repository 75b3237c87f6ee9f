"""The colours of changes on a terminal: those of the terminal itself, or for a dark or a light background.

The latter are those of the page (changes.css), with enough contrast to the ground of every line.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from rich.color import ColorSystem
from rich.style import Style

from sm.board.choices import Theme
from sm.cli.display.patch_lines import Piece, PieceRole
from sm.cli.display.patch_syntax import Syntax

_SYSTEM: Mapping[PieceRole, str] = {
    PieceRole.FILE: "bold",
    PieceRole.DETAIL: "",
    PieceRole.RULE: "blue",
    PieceRole.HUNK: "cyan",
    PieceRole.NUMBER: "dim",
    PieceRole.CONTEXT: "",
    PieceRole.ADDED: "green",
    PieceRole.ADDED_WORD: "green reverse",
    PieceRole.DELETED: "red",
    PieceRole.DELETED_WORD: "red reverse",
}
_ROLES: Mapping[Theme, Mapping[PieceRole, str]] = {
    Theme.SYSTEM: _SYSTEM,
    Theme.DARK: {
        **_SYSTEM,
        PieceRole.ADDED: "on #12291b",
        PieceRole.ADDED_WORD: "on #1b4d2b",
        PieceRole.DELETED: "on #351a1d",
        PieceRole.DELETED_WORD: "on #6b2629",
    },
    Theme.LIGHT: {
        **_SYSTEM,
        PieceRole.ADDED: "on #e4f7e8",
        PieceRole.ADDED_WORD: "on #abebb9",
        PieceRole.DELETED: "on #fdeceb",
        PieceRole.DELETED_WORD: "on #fbc5c1",
    },
}
_CODE: Mapping[Theme, Mapping[Syntax, str]] = {
    Theme.SYSTEM: {
        Syntax.COMMENT: "dim italic",
        Syntax.KEYWORD: "magenta",
        Syntax.NAME: "blue",
        Syntax.LITERAL: "cyan",
        Syntax.STRING: "yellow",
    },
    Theme.DARK: {
        Syntax.COMMENT: "#adb7c4 italic",
        Syntax.KEYWORD: "#ffa9a3",
        Syntax.NAME: "#d9b8ff",
        Syntax.LITERAL: "#8fc7ff",
        Syntax.STRING: "#a5d6ff",
    },
    Theme.LIGHT: {
        Syntax.COMMENT: "#4c5663 italic",
        Syntax.KEYWORD: "#a0111f",
        Syntax.NAME: "#5f2bb0",
        Syntax.LITERAL: "#0550ae",
        Syntax.STRING: "#0a3069",
    },
}
_WORDS = (PieceRole.ADDED_WORD, PieceRole.DELETED_WORD)
_DARK_MAX = 6
_GREY = 8


@lru_cache(maxsize=512)
def piece_style(role: PieceRole, syntax: Syntax, theme: Theme) -> Style:
    """The style of a piece. With the terminal's own colours, a changed line has them only where its code has none."""
    style = Style.parse(_ROLES[theme][role])
    if theme is Theme.SYSTEM and role in _WORDS:  # reversed, other colours would be backgrounds
        return style
    return style + Style.parse(_CODE[theme].get(syntax, ""))


def coloured(pieces: Iterable[Piece], theme: Theme, colours: ColorSystem) -> str:
    """A line with control sequences for its colours alone."""
    return "".join(
        piece_style(role, syntax, theme).render(text, color_system=colours) for text, role, syntax in pieces
    )


def theme_of_terminal(environ: Mapping[str, str], colours: ColorSystem) -> Theme:
    """The colours for the background that COLORFGBG names, or those of the terminal if it names none."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    if colours is ColorSystem.STANDARD or not background.isdecimal():
        return Theme.SYSTEM
    number = int(background[:3])
    return Theme.DARK if number <= _DARK_MAX or number == _GREY else Theme.LIGHT
