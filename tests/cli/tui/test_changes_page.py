"""The tab *Changes* on the page of a session in `sm top`, with a real daemon and git."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.board.tabs import TABS
from sm.cli.tui import changes_tab
from sm.cli.tui.changes_tab import ChangesReading, ShownChanges
from sm.client.http import Client
from tests.cli.tui.view import View, top
from tests.git_repositories import git, make_app
from tests.instance import Instance

KEY = str([tab.name for tab in TABS].index("changes") + 1)


@pytest.fixture(scope="module")
def home() -> Iterator[Instance]:
    with Instance() as instance:
        instance.start_daemon()
        yield instance


@pytest.fixture(scope="module")
def agent(home: Instance) -> tuple[str, Path]:
    """A session with a worktree in which it has changed four files."""
    repo = make_app(home.work)
    for name in ("b.py", "old.txt"):
        (repo / name).write_text("".join(f"line({number})\n" for number in range(40)))
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "more")
    session = home.spawn("Sleeper", "x", "--worktree", "--name", "login", cwd=repo)
    path = Path(session["worktree"]["path"])
    (path / "api" / "a.txt").write_text("b\nc\n")
    text = (path / "b.py").read_text().replace("line(2)", "line(22)").replace("line(38)", "return None")
    (path / "b.py").write_text(text)
    (path / "evil\x1b[2J\u202e").write_text("\x1b]0;x\x07\n")
    (path / "picture").write_bytes(bytes(2048))
    return session["session_id"], path


async def open_tab(view: View, session_id: str) -> None:
    await view.select(session_id)
    await view.press("enter")
    await view.shows("1 Overview")
    await view.press(KEY)


async def test_changes_of_a_session_have_files_on_top_and_hunks_below(
    home: Instance, agent: tuple[str, Path]
) -> None:
    session_id, _ = agent
    async with top(home, (120, 40)) as view:
        await open_tab(view, session_id)
        await view.shows(f"sm diff {session_id} (Esc: back)", "4 files +5 -3", "< >: file  { }: hunk")
        await view.shows(" api/a.txt +2 -1", " picture  new, binary 2.0 KiB", "  1     │-a", "      2 │+c")
        assert "\x1b" not in view.text() and "\u202e" not in view.text()
        await view.shows("evil<U+001B>[2J<U+202E>")
        await view.press(">")
        await view.hides("│-a")
        await view.press("}", "}")
        await view.hides("│-line(2)")
        await view.shows("│+return None")
        await view.press("{")
        await view.shows("│-line(2)")
        await view.press("<", "<")
        await view.shows("│-a")
        await view.press("question_mark")
        await view.shows("Keys of this page", "Go to the next hunk")
        await view.press("escape", "j")
        await view.hides("@@ -1,1")
        await view.press("1")
        await view.shows("Directory:")
        await view.hides("│+c")


async def test_changes_are_read_again(
    home: Instance, agent: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_EVERY_S", "_REST"):
        monkeypatch.setattr(changes_tab, name, 0.0)
    session_id, path = agent
    async with top(home, (120, 40)) as view:
        await open_tab(view, session_id)
        await view.shows("4 files")
        (path / "z.txt").write_text("z\n")
        await view.shows("5 files", " z.txt +1  new")
    (path / "z.txt").unlink()


async def test_reason_is_shown_when_there_is_no_repository(home: Instance) -> None:
    session_id = home.spawn("Sleeper", "x", cwd=home.home)["session_id"]
    async with top(home, (120, 40)) as view:
        await open_tab(view, session_id)
        await view.shows(
            "does not work in a git repository", "hint: start agents whose work you want to merge"
        )


async def test_keys_have_an_effect_while_git_runs(
    home: Instance, agent: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Event(), threading.Event()
    run = ChangesReading.run

    def slow(reading: ChangesReading, *, in_parts: bool = False) -> None:
        began.set()
        go_on.wait(60)
        run(reading, in_parts=in_parts)

    monkeypatch.setattr(ChangesReading, "run", slow)
    async with top(home, (120, 40)) as view:
        await open_tab(view, agent[0])
        await view.until(began.is_set, "the reading")
        await view.shows("loading")
        await view.press("6")
        await view.shows("Because:")
        go_on.set()
        await view.press(KEY)
        await view.shows("4 files")


def test_reading_that_was_ended_ends_git_and_shows_nothing(home: Instance, agent: tuple[str, Path]) -> None:
    shown = list[ShownChanges]()
    reading = ChangesReading(Client(str(home.socket)), agent[0], shown.append)
    reading.end()
    reading.run()
    assert shown == []


def test_full_disk_is_a_reason(
    home: Instance, agent: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()

    def fill_disk() -> float:
        """Called when the session is found: no further temporary file can be made."""
        monkeypatch.setattr(tempfile, "tempdir", str(file))
        return 0.0

    shown = list[ShownChanges]()
    ChangesReading(Client(str(home.socket)), agent[0], shown.append, fill_disk).run()
    (pieces,) = shown[0].rows
    assert pieces[0][0].startswith("git cannot run: [Errno 20] Not a directory")


def test_long_reading_shows_the_first_files_before_the_last(home: Instance, agent: tuple[str, Path]) -> None:
    shown = list[ShownChanges]()
    times = iter(range(100))
    reading = ChangesReading(Client(str(home.socket)), agent[0], shown.append, lambda: float(next(times)))
    reading.run(in_parts=True)
    assert [len(changes.files) for changes in shown] == [1, 2, 3, 4, 4]
