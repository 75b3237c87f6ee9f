"""The sheet of `sm top` that starts an agent, with a real daemon."""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from textual.widgets import Input, TextArea

from sm.board.spawn_sheet import Json
from sm.cli.spawn_questions import spawn_choices
from sm.cli.tui import start_sheet
from sm.cli.tui.start_sheet import StartSheet
from sm.client.http import Client
from tests.cli.tui.test_top import MORE, leave
from tests.cli.tui.view import View, top
from tests.git_repositories import make_app
from tests.instance import Instance


@pytest.fixture(scope="module")
def home() -> Iterator[Instance]:
    with Instance(MORE) as instance:
        instance.start_daemon()
        yield instance


async def open_sheet(view: View) -> StartSheet:
    await view.press("n")
    await view.until(
        lambda: isinstance(view.app.screen, StartSheet) and view.app.screen.focused is not None, "the sheet"
    )
    sheet = view.app.screen
    assert isinstance(sheet, StartSheet)
    await view.until(lambda: "Loading" not in view.text() and sheet._known is not None, "the choices")
    return sheet


def entry(sheet: StartSheet, name: str) -> Input:
    return sheet.query_one(f"#field-{name}", Input)


def is_in(sheet: StartSheet, name: str) -> bool:
    return sheet.focused is sheet.query_one(f"#field-{name}")


async def test_sheet_tells_what_a_start_does_and_refusals_stand_at_their_fields(home: Instance) -> None:
    repo = make_app(home.work).rename(home.work / "tree")
    async with top(home, (120, 40)) as view:
        sheet = await open_sheet(view)
        assert is_in(sheet, "prompt")
        await view.press(*"go", "enter", *"on")
        entry(sheet, "agent_type").value = "sleeper"
        entry(sheet, "working_dir").value = str(repo / "missing")
        await view.shows("missing does not exist")
        await view.press("ctrl+s")
        await view.until(lambda: is_in(sheet, "working_dir"), "the field with the problem")
        entry(sheet, "working_dir").value = str(repo)
        await view.shows("[a git worktree of its own]", f"Starts Sleeper in a new git worktree of {repo}.")
        entry(sheet, "branch").value = "main"
        entry(sheet, "name").value = "tree"
        await view.shows(f"sm spawn --name tree --working-dir {repo} --worktree --branch main Sleeper")
        await view.press("ctrl+s")
        await view.shows("branch main is checked out in")
        await view.until(lambda: is_in(sheet, "branch"), "the field of the refusal")
        lines = view.text().splitlines()
        at = next(place for place, line in enumerate(lines) if line.startswith("Branch:"))
        assert "branch main is checked out in" in lines[at + 1]
        await view.press(*["backspace"] * 4, *"fix", "ctrl+s")
        await view.until(lambda: view.app.screen is not sheet, "the sheet closes")
        await view.shows("done: sm spawn --name tree --working-dir", "sleeper-tree")
        session = home.session("sleeper-tree")
        assert session["worktree"]["branch"] == "fix"
    leave(home, session["session_id"])


async def test_start_waits_for_the_facts_of_the_directory_that_was_entered(
    home: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, answer = make_app(home.work).rename(home.work / "late"), threading.Event()

    def late_choices(client: Client, query: Mapping[str, str]) -> Json:
        if query.get("working_dir") == str(repo):
            answer.wait(60)
        return spawn_choices(client, query)

    monkeypatch.setattr(start_sheet, "spawn_choices", late_choices)
    started: list[Mapping[str, str]] = []
    async with top(home, (120, 40)) as view:
        sheet = await open_sheet(view)
        monkeypatch.setattr(sheet, "_submit", lambda values, done: started.append(values))
        entry(sheet, "agent_type").value = "Sleeper"
        entry(sheet, "working_dir").value = str(repo)
        await view.shows(f"Starts Sleeper in {repo}.")
        await view.press("ctrl+s")
        assert started == []
        answer.set()
        await view.until(lambda: bool(started), "the start")
    assert started[0]["place"] == "worktree"


async def test_start_takes_what_stands_in_the_fields_and_keeps_what_is_entered_meanwhile(
    home: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Mapping[str, str]] = []
    ends: list[Callable[[None], None]] = []

    def submit(values: Mapping[str, str], done: Callable[[None], None]) -> None:
        started.append(values)
        ends.append(done)

    async with top(home, (120, 40)) as view:
        sheet = await open_sheet(view)
        monkeypatch.setattr(sheet, "_submit", submit)
        entry(sheet, "agent_type").value = "Sleeper"
        await view.until(lambda: not sheet._is_asking, "the facts")
        entry(sheet, "name").value = "first"
        sheet.action_start(True)
        await view.until(lambda: bool(started), "the start")
        assert started[0].get("name") == "first"
        entry(sheet, "name").value = "next"
        await view.until(lambda: sheet._given.get("name") == "next", "the name")
        ends[0](None)
        assert (entry(sheet, "name").value, entry(sheet, "agent_type").value) == ("next", "Sleeper")
        sheet._given.clear()


async def test_task_gets_the_files_whose_paths_are_entered(home: Instance) -> None:
    shot = home.work / "shot.png"
    shot.write_bytes(b"a picture")
    async with top(home, (120, 40)) as view:
        sheet = await open_sheet(view)
        await view.press("ctrl+o")
        entry(sheet, "files").value = f"{shot}, {shot}x"
        await view.shows("files belong to a task: enter one")
        await view.press(*"look")
        entry(sheet, "agent_type").value = "Sleeper"
        entry(sheet, "working_dir").value = str(home.work)
        entry(sheet, "name").value = "looks"
        await view.shows(f"sm spawn --file {shot} --file {shot}x --name looks")
        await view.press("ctrl+s")
        await view.shows(f"{shot}x: no such file or directory")
        await view.until(lambda: is_in(sheet, "files"), "the field of the refusal")
        entry(sheet, "files").value = str(shot)
        await view.press("ctrl+s")
        await view.until(lambda: view.app.screen is not sheet, "the sheet closes")
    session = home.session("sleeper-looks")["session_id"]
    (copy,) = (home.state / "launch" / f"{session}.files").glob("*/shot.png")
    assert copy.read_bytes() == b"a picture"
    leave(home, session)


async def test_keys_lead_through_the_fields_and_show_more(home: Instance) -> None:
    async with top(home) as view:
        sheet = await open_sheet(view)
        for key, field in (
            *(("tab", "agent_type"), ("down", "working_dir"), ("enter", "place"), ("up", "working_dir")),
            *(("shift+tab", "agent_type"), ("shift+tab", "prompt"), ("shift+tab", "name")),
        ):
            await view.press(key)
            assert is_in(sheet, field), key
        await view.hides("Workspace:")
        await view.press("ctrl+o")
        await view.shows("Workspace:", "Ctrl-O: less")
        entry(sheet, "agent_type").value = ""
        await view.press("ctrl+s")
        await view.shows("a value is missing: Agent type")


async def test_text_is_kept_until_an_agent_has_started_with_it(home: Instance) -> None:
    (home.work / "here").mkdir(exist_ok=True)
    async with top(home) as view:
        sheet = await open_sheet(view)
        await view.press(*"one")
        entry(sheet, "agent_type").value = "Sleeper"
        entry(sheet, "working_dir").value = str(home.work / "here")
        await view.press("escape")
        await view.until(lambda: view.app.screen is not sheet, "the sheet closes")
        sheet = await open_sheet(view)
        assert sheet.query_one("#field-prompt", TextArea).text == "one"
        entry(sheet, "name").value = "first"
        await view.press("ctrl+n")
        await view.until(lambda: sheet.query_one("#field-prompt", TextArea).text == "", "the task has gone")
        assert (entry(sheet, "name").value, entry(sheet, "agent_type").value) == ("", "Sleeper")
        assert entry(sheet, "working_dir").value == str(home.work / "here")
        await view.until(lambda: is_in(sheet, "prompt"), "the next task")
        await view.press(*"two", "ctrl+s")
        await view.until(lambda: view.app.screen is not sheet, "the sheet closes")
        sheet = await open_sheet(view)
        assert sheet.query_one("#field-prompt", TextArea).text == ""
        await view.press("escape")
    started = [s for s in home.json("ls") if s["working_dir"] == str(home.work / "here")]
    assert len(started) == 2
    for session in started:
        leave(home, session["session_id"])


async def test_text_that_is_typed_while_an_agent_starts_is_kept(
    home: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = threading.Event()
    post = Client.post

    def late(client: Client, path: str, *args: Any, **options: Any) -> Any:
        answer = post(client, path, *args, **options)
        if path == "/v1/sessions":
            assert may_answer.wait(60)
        return answer

    monkeypatch.setattr(Client, "post", late)
    (home.work / "slow").mkdir()
    async with top(home) as view:
        sheet = await open_sheet(view)
        await view.press(*"one")
        entry(sheet, "agent_type").value = "Sleeper"
        entry(sheet, "working_dir").value = str(home.work / "slow")
        await view.press("ctrl+s")  # the events of the fields may come behind it
        await view.shows("Starting …")
        await view.press("space", *"two")
        await view.until(lambda: sheet._given["prompt"] == "one two", "the text")
        may_answer.set()
        await view.until(lambda: not sheet._is_busy, "the answer")
        assert view.app.screen is sheet
        assert sheet.query_one("#field-prompt", TextArea).text == "one two"
    (started,) = [s for s in home.json("ls") if s["working_dir"] == str(home.work / "slow")]
    leave(home, started["session_id"])
