"""The colours of `sm top`: those of the terminal, or a dark or light theme."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sm.board.choices import Theme

if TYPE_CHECKING:
    from sm.cli.tui.app import TopApp

_THEMES: Mapping[Theme, str] = {
    Theme.SYSTEM: "ansi-dark",
    Theme.DARK: "textual-dark",
    Theme.LIGHT: "textual-light",
}


def show_theme(app: "TopApp", theme: Theme) -> None:
    """Change the colours. With NO_COLOR there are none."""
    chosen = Theme.SYSTEM if app.no_color else theme
    app.theme = _THEMES[chosen]
    app.ansi_color = chosen is Theme.SYSTEM
    for name in ("needs", "list"):
        app.rows_view(name).repaint(filled=chosen is not Theme.SYSTEM)


def next_theme(app: "TopApp", theme: Theme) -> Theme:
    """Change to the theme after `theme`, and return it."""
    themes = list(Theme)
    following = themes[(themes.index(theme) + 1) % len(themes)]
    show_theme(app, following)
    return following
