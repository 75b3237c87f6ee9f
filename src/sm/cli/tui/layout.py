"""The regions of `sm top` and their sizes."""

from textual.geometry import Size
from textual.screen import Screen

_WIDE, _NARROW, _LOW = 120, 60, 12
_DETAIL_MIN, _DETAIL_EDGE = 45, 2

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
#detail { width: 45; height: 1fr; padding: 0 0 0 1; text-wrap: nowrap; }
#foot { height: 1; }
"""


def lay_out(main: Screen[object], size: Size, needs: int, *, in_needs: bool) -> None:
    """Show the regions for which the screen has room. `needs`: the number of entries that need a person.

    `in_needs`: the selection is among them.
    """
    width, height = size
    is_low = height < _LOW
    one_region = width < _NARROW or is_low
    main.query_one("#detail").display = width >= _WIDE
    main.query_one("#detail").styles.width = detail_width(width) + _DETAIL_EDGE
    main.query_one("#chips").display = not is_low
    main.query_one("#foot").display = height > 5
    main.query_one("#main").display = not (one_region and in_needs)
    room = height - 4 if one_region and in_needs else max(1, height // 3 - 1)
    shown = 0 if one_region and not in_needs else min(needs, room)
    main.query_one("#needs").display = shown > 0
    main.query_one("#needs").styles.height = max(1, shown)


def detail_width(width: int) -> int:
    """The cells of a line in the region beside the list, on a screen of `width`."""
    return max(_DETAIL_MIN, width * 3 // 8) - _DETAIL_EDGE
