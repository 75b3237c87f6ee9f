"""The regions of `sm top` and their sizes."""

from textual.geometry import Size
from textual.screen import Screen

from sm.cli.tui.filter_field import FilterField
from sm.core.dataclass import dataclass

_WIDE, _NARROW, _LOW = 120, 60, 12
_DETAIL_MIN, _DETAIL_EDGE = 45, 2
_BELOW_MIN = 4
"""The least height of the region below the list: its title, and three lines."""

CSS = """
Screen { layout: vertical; }
#head { height: 1; text-style: reverse; }
#chips { height: 1; }
#needs-title { height: 1; text-style: bold; }
#needs { height: 1; }
#needs, #list { overflow-x: hidden; scrollbar-size-vertical: 1; }
#main { height: 1fr; }
#list-region { width: 1fr; height: 1fr; }
#columns { height: 1; text-style: bold; }
#list { width: 1fr; height: 1fr; }
#below { width: 1fr; height: 4; text-wrap: nowrap; display: none; }
#detail { width: 45; height: 1fr; padding: 0 0 0 1; text-wrap: nowrap; }
#foot { height: 1; }
.-theme-sm-dark TextArea .text-area--placeholder, .-theme-sm-light TextArea .text-area--placeholder {
    color: $text-muted;
}
"""


@dataclass(frozen=True, slots=True)
class ListContent:
    """How much there is to show."""

    needs: int
    """The entries that need a person."""
    lines: int
    """The lines of the list."""
    in_needs: bool
    """The selection is among the entries."""


def lay_out(main: Screen[object], size: Size, content: ListContent) -> None:
    """Show the regions for which the screen has room."""
    width, height = size
    is_low, in_needs = height < _LOW, content.in_needs
    one_region, has_foot = width < _NARROW or is_low, height > 5
    is_typing = main.query_one(FilterField).is_open
    main.query_one("#detail").display = width >= _WIDE
    main.query_one("#detail").styles.width = detail_width(width) + _DETAIL_EDGE
    main.query_one("#chips").display = not is_low
    main.query_one("#foot").display = has_foot and not is_typing
    main.query_one("#main").display = not (one_region and in_needs)
    room = height - 4 if one_region and in_needs else max(1, height // 3 - 1)
    shown = 0 if one_region and not in_needs else min(content.needs, room)
    main.query_one("#needs").display = shown > 0
    main.query_one("#needs").styles.height = max(1, shown)
    above = 3 + (not is_low) + shown  # the head, the two titles, and the chips
    free = height - above - (2 if is_typing else has_foot) - content.lines
    below = main.query_one("#below")
    below.display = free >= _BELOW_MIN
    below.styles.height = max(1, free)


def detail_width(width: int) -> int:
    """The cells of a line in the region beside the list, on a screen of `width`."""
    return max(_DETAIL_MIN, width * 3 // 8) - _DETAIL_EDGE
