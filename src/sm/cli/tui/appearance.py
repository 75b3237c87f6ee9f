"""The colours of `sm top`: those of the terminal, or the dark or light ones of the page of `sm web`."""

from collections.abc import Mapping
from typing import Any

from textual.app import App

from sm.board.choices import Theme

THEMES: Mapping[Theme, str] = {Theme.SYSTEM: "ansi-dark", Theme.DARK: "sm-dark", Theme.LIGHT: "sm-light"}
FILLED_COLOURS: Mapping[Theme, Mapping[str, str]] = {
    Theme.DARK: {
        "ground": "#14171c",
        "raised": "#1c2129",
        "selected": "#23344d",
        "text": "#e6e9ee",
        "soft": "#a3adbb",
        "accent": "#6cb2ff",
        "green": "#56d364",
        "yellow": "#e3b341",
        "red": "#ff8882",
        "cyan": "#67d3e0",
        "violet": "#d9b8ff",
    },
    Theme.LIGHT: {
        "ground": "#ffffff",
        "raised": "#f3f5f8",
        "selected": "#d6e6fb",
        "text": "#1b2027",
        "soft": "#525d6b",
        "accent": "#0a58b8",
        "green": "#116329",
        "yellow": "#7d5200",
        "red": "#b3261e",
        "cyan": "#0b6470",
        "violet": "#5f2bb0",
    },
}
"""The colours of docs/design-of-views.md, each with enough contrast to all three grounds."""
_ANSI = ("ground", "red", "green", "yellow", "accent", "violet", "cyan", "text")
"""The names of the terminal's colours 0 to 7, which are also those of 8 to 15, except for a soft black."""


def show_theme(app: App[Any], theme: Theme) -> bool:
    """Change the colours; with True the app fills its background. With NO_COLOR there are none."""
    chosen = Theme.SYSTEM if app.no_color else theme
    if chosen is not Theme.SYSTEM:
        _register(app, chosen)
    app.theme = THEMES[chosen]
    app.ansi_color = chosen is Theme.SYSTEM
    return chosen is not Theme.SYSTEM


def _register(app: App[Any], theme: Theme) -> None:
    """Let the app know the theme, and draw the colours that programs name with those of the theme."""
    from rich.color import Color
    from rich.terminal_theme import TerminalTheme
    from textual.theme import Theme as TextualTheme

    own, is_dark = FILLED_COLOURS[theme], theme is Theme.DARK
    app.register_theme(
        TextualTheme(
            THEMES[theme],
            primary=own["accent"],
            secondary=own["violet"],
            warning=own["yellow"],
            error=own["red"],
            success=own["green"],
            accent=own["accent"],
            foreground=own["text"],
            background=own["ground"],
            surface=own["raised"],
            dark=is_dark,
            variables={
                "text-muted": own["soft"],
                "text-disabled": own["soft"],
                "block-cursor-blurred-foreground": own["text"],
                "block-cursor-blurred-background": own["selected"],
            },
        )
    )

    def rgb(name: str) -> tuple[int, int, int]:
        red, green, blue = Color.parse(own[name]).get_truecolor()
        return red, green, blue

    normal = [rgb(name) for name in _ANSI]
    colours = TerminalTheme(rgb("ground"), rgb("text"), normal, [rgb("soft"), *normal[1:]])
    if is_dark:
        app.ansi_theme_dark = colours
    else:
        app.ansi_theme_light = colours


def shown_theme(app: App[Any]) -> Theme:
    """The colours that the app has now."""
    return next((theme for theme, name in THEMES.items() if name == app.theme), Theme.SYSTEM)


def next_theme(theme: Theme) -> Theme:
    themes = list(Theme)
    return themes[(themes.index(theme) + 1) % len(themes)]
