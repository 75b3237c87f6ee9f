"""The tab of a session's page with its changes: keys, long lines, and what it shows while git runs."""

from textual.app import App, ComposeResult

from sm.board import ACTIONS
from sm.board.tabs import CHANGES_KEYS
from sm.cli.display.patch_lines import PieceRole, Pieces, Sizes
from sm.cli.display.patch_syntax import Syntax, SyntaxReader
from sm.cli.tui import texts
from sm.cli.tui.changes_tab import ShownChanges, _Collected
from sm.cli.tui.changes_view import ChangesView, _folded
from sm.core.patches import read_patch


def changes_of(*hunks: int, width: int = 10) -> ShownChanges:
    """The changes of files with these numbers of hunks, each of four lines."""
    lines = list[bytes]()
    for number, count in enumerate(hunks):
        name = b"file%d.py" % number
        lines += [b"diff --git a/%b b/%b" % (name, name), b"--- a/" + name, b"+++ b/" + name]
        for hunk in range(count):
            lines.append(b"@@ -%d,2 +%d,2 @@" % (10 * hunk + 1, 10 * hunk + 1))
            lines += [b"-old = %d" % hunk, b"+new = " + b"9" * width, b" same"]
    found = _Collected()
    for file in read_patch(lines):
        found.add(file, Sizes(), SyntaxReader())
    return found.shown()


class ChangesApp(App[None]):
    def compose(self) -> ComposeResult:
        yield ChangesView()

    @property
    def view(self) -> ChangesView:
        return self.query_one(ChangesView)

    def rows(self) -> list[str]:
        """The lines on the screen, without the scrollbar."""
        return [
            strip.text[: self.size.width - 1].rstrip() for strip in self.screen._compositor.render_strips()
        ]


async def test_keys_go_to_files_and_hunks() -> None:
    app = ChangesApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.view.show(changes_of(2, 1, 3))
        await pilot.pause()
        assert app.rows()[:3] == [" file0.py +2 -2", " file1.py +1 -1", " file2.py +3 -3"]
        assert app.rows()[3:6] == ["", "file0.py +2 -2", "─" * 39]

        async def tops(keys: str) -> list[str]:
            """The first line of the region below the files after each key."""
            found = []
            for key in keys:
                assert app.view.press(key)
                await pilot.pause()
                found.append(app.rows()[4])
            return found

        assert await tops("}}}>") == [
            "@@ -1,2 +1,2 @@", "@@ -11,2 +11,2 @@", "@@ -1,2 +1,2 @@", "file2.py +3 -3",
        ]  # fmt: skip
        assert await tops("}}}}") == [
            "@@ -1,2 +1,2 @@",
            "@@ -11,2 +11,2 @@",
            "@@ -21,2 +21,2 @@",
            "@@ -21,2 +21,2 @@",
        ]
        assert await tops("{<<<<") == [
            "@@ -11,2 +11,2 @@", "file2.py +3 -3", "file1.py +1 -1", "file0.py +2 -2", "file0.py +2 -2",
        ]  # fmt: skip
        assert not app.view.press("x")
        assert not app.view.press(None)


async def test_file_at_the_top_is_marked_and_a_click_goes_to_another_one() -> None:
    app = ChangesApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.view.show(changes_of(1, 1, 1))
        await pilot.pause()

        def marked() -> list[int]:
            strips = app.screen._compositor.render_strips()[:3]
            return [y for y, strip in enumerate(strips) if any(s.style and s.style.reverse for s in strip)]

        assert marked() == [0]
        await pilot.click(offset=(3, 2))
        await pilot.pause()
        assert marked() == [2]
        assert app.rows()[4] == "file2.py +1 -1"


async def test_place_is_kept_when_the_changes_are_read_again_and_the_size_changes() -> None:
    app = ChangesApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.view.show(changes_of(3, 3))
        await pilot.pause()
        for _ in range(2):
            app.view.press("}")
        app.view.show(changes_of(3, 4, width=99))
        await pilot.pause()
        assert app.rows()[3] == "@@ -11,2 +11,2 @@"
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        app.view.press("<")
        await pilot.pause()
        assert app.rows()[3] == "file0.py +3 -3"


async def test_words_alone_have_no_files() -> None:
    app = ChangesApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.view.show(None)
        await pilot.pause()
        assert app.rows()[0] == "loading"
        for key in CHANGES_KEYS:
            assert app.view.press(key)


def test_long_lines_are_folded_below_their_numbers() -> None:
    pieces: Pieces = [
        ("  1     ", PieceRole.NUMBER, Syntax.NONE),
        ("│-", PieceRole.DELETED, Syntax.NONE),
        ("名" * 12, PieceRole.DELETED, Syntax.STRING),
        ("x" * 10, PieceRole.DELETED_WORD, Syntax.NONE),
    ]
    rows = ["".join(text for text, _, _ in row) for row in _folded(pieces, 25)]
    assert rows == [f"  1     │-{'名' * 7}", f"        │ {'名' * 5}xxxxx", "        │ xxxxx"]
    wide: Pieces = [("1" * 40, PieceRole.NUMBER, Syntax.NONE), ("│+x", PieceRole.ADDED, Syntax.NONE)]
    assert "".join(text for row in _folded(wide, 20) for text, _, _ in row) == f"{'1' * 40}│+x"


def test_keys_of_the_changes_are_in_the_help_and_no_action_has_them() -> None:
    assert not set(CHANGES_KEYS) & {action.key for action in ACTIONS.values()}
    shown = texts.page_help("", has_tabs=True, has_cursor=False, has_changes=True)
    for key, jump in CHANGES_KEYS.items():
        assert f"{key:<12} Go to the {jump}" in shown
    assert texts.keys_of_changes() == "< >: file  { }: hunk"
    assert not any("hunk" in line for line in texts.page_help("", has_tabs=True, has_cursor=False))


def test_too_many_lines_are_cut() -> None:
    found = changes_of(6_000, 1)
    assert (len(found.rows), len(found.files)) == (20_002, 2)
    assert found.rows[found.file_rows[1]][0][0] == "file1.py"
