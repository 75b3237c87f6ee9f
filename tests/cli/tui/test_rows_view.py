"""The list that draws its own lines."""

from rich.style import Style
from textual.app import App, ComposeResult

from sm.cli.tui.cells import Cells
from sm.cli.tui.rows_view import RowsView


class ListApp(App[None]):
    CSS = "RowsView { height: 3; overflow-x: hidden; scrollbar-size-vertical: 1; }"

    def compose(self) -> ComposeResult:
        yield RowsView(self._line)

    def _line(self, place: int, width: int) -> Cells:
        return (("." * (width - 1) + "|", Style()),)


async def test_scrollbar_hides_no_end_of_a_line() -> None:
    app = ListApp()
    async with app.run_test(size=(40, 10)) as pilot:
        view = app.query_one(RowsView)
        for count, width in ((3, 40), (4, 39)):
            view.show(count, 0)
            await pilot.pause()
            view.redraw()
            await pilot.pause()
            shown = [strip.text for strip in app.screen._compositor.render_strips()][:3]
            assert [line[:width] for line in shown] == ["." * (width - 1) + "|"] * 3
