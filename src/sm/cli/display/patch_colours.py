"""The colours of changes on a terminal: those of the terminal itself, or for a dark or a light background."""

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
        PieceRole.ADDED: "on #0c2d1a",
        PieceRole.ADDED_WORD: "on #1b6334",
        PieceRole.DELETED: "on #3b1214",
        PieceRole.DELETED_WORD: "on #80282c",
    },
    Theme.LIGHT: {
        **_SYSTEM,
        PieceRole.ADDED: "on #d9f5e0",
        PieceRole.ADDED_WORD: "on #9be0ae",
        PieceRole.DELETED: "on #fde3e3",
        PieceRole.DELETED_WORD: "on #f6b2b2",
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
        Syntax.COMMENT: "#8b949e italic",
        Syntax.KEYWORD: "#ff7b72",
        Syntax.NAME: "#d2a8ff",
        Syntax.LITERAL: "#79c0ff",
        Syntax.STRING: "#e3b341",
    },
    Theme.LIGHT: {
        Syntax.COMMENT: "#59636e italic",
        Syntax.KEYWORD: "#b31d28",
        Syntax.NAME: "#6f42c1",
        Syntax.LITERAL: "#0550ae",
        Syntax.STRING: "#7d4e00",
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
