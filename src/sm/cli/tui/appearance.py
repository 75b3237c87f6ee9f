"""The colours of `sm top`: those of the terminal, or a dark or light theme."""

from collections.abc import Mapping
from typing import Any

from textual.app import App

from sm.board.choices import Theme

THEMES: Mapping[Theme, str] = {
    Theme.SYSTEM: "ansi-dark",
    Theme.DARK: "textual-dark",
    Theme.LIGHT: "textual-light",
}


def show_theme(app: App[Any], theme: Theme) -> bool:
    """Change the colours; with True the app fills its background. With NO_COLOR there are none."""
    chosen = Theme.SYSTEM if app.no_color else theme
    app.theme = THEMES[chosen]
    app.ansi_color = chosen is Theme.SYSTEM
    return chosen is not Theme.SYSTEM


def shown_theme(app: App[Any]) -> Theme:
    """The colours that the app has now."""
    return next((theme for theme, name in THEMES.items() if name == app.theme), Theme.SYSTEM)


def next_theme(theme: Theme) -> Theme:
    themes = list(Theme)
    return themes[(themes.index(theme) + 1) % len(themes)]
