"""The pages of `sm top` that stay up to date, and what it keeps, with a real daemon."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.widgets import Input

from sm.board.choices import Choices, Theme
from sm.board.order import Sort
from sm.cli.tui.forms import ActionForm
from sm.cli.tui.kept import KeptChoices
from sm.cli.tui.screens import LinePrompt
from sm.cli.tui.start_sheet import StartSheet
from tests.board.samples import row_data, update
from tests.cli.tui.test_top import MORE, ask, leave, propose_completion, request_of
from tests.cli.tui.view import View, top
from tests.git_repositories import make_app
from tests.instance import Instance
from tests.session_client import request_as


@pytest.fixture(scope="module")
def home() -> Iterator[Instance]:
    with Instance(MORE) as instance:
        instance.start_daemon()
        yield instance


@pytest.fixture
def agent(home: Instance) -> Iterator[str]:
    session_id = str(home.spawn("Sleeper", "x")["session_id"])
    yield session_id
    leave(home, session_id)


async def enter(view: View, *texts: str) -> None:
    """Fill in one field of a form after the other, or the only line of a prompt."""
    await view.until(
        lambda: isinstance(view.app.screen, ActionForm | LinePrompt) and view.app.screen.focused is not None,
        "the form",
    )
    for text in texts:
        field = view.app.screen.focused
        if isinstance(field, Input):
            field.value = text
        await view.press("enter")


async def test_tabs_of_a_session_stay_up_to_date(home: Instance, agent: str) -> None:
    child = home.spawn("Sleeper", "x", "--parent", agent, "--name", "child")["session_id"]
    key = ask(home, agent, "Which way?", "left")
    home.sm("answer", key, "1")
    async with top(home, (140, 40)) as view:
        await view.select(agent)
        await view.press("enter")
        await view.shows("1 Overview", f"sm status {agent} (Esc: back)", "Directory:")
        await view.press("right_square_bracket")
        await view.shows(f"sm output {agent} (Esc: back)")
        await view.press("5")
        await view.shows(f"sm events --limit 200 {agent}", "Which way?")
        request_as(home, agent, ("POST", "/v1/sessions/me/note", None, {"text": "half of it"}))
        await view.shows("half of it")
        await view.press("7")
        await view.shows(f"sm requests --all {agent}", f"{key} | question", "answered")
        await view.press("6")
        await view.shows(f"sm why {agent}", "Because:")
        await view.press("8")
        await view.shows("sleeper-child")
        await view.press("3")
        await view.shows(f"sm tail -n 500 {agent}", "half of it")
        await view.press("question_mark")
        await view.shows("Keys of this page", "Another tab", "K: kill")
        await view.press("escape")
        await view.shows(f"sm tail -n 500 {agent}", "half of it")
        await view.press("escape")
        await view.shows("NAME")
    leave(home, child)


async def test_messages_of_a_session_have_their_state_and_its_reason(home: Instance, agent: str) -> None:
    home.sm("send", "--no-wait", agent, "hello you")
    async with top(home, (140, 40)) as view:
        await view.select(agent)
        await view.press("enter", "4")
        await view.shows(f"sm log {agent}", "operator -> ", "queued", "hello you")


async def test_terminal_of_a_session_is_shown_live(home: Instance) -> None:
    script = "while sm inbox --take --wait --json; do :; done"
    shell = home.spawn("Sh", script)["session_id"]
    async with top(home, (140, 40)) as view:
        await view.select(shell)
        await view.press("v")
        await view.shows(f"sm output {shell} (Esc: back)")
        home.sm("send", shell, "seen-on-the-screen")
        await view.shows("seen-on-the-screen")
        home.sm("kill", shell, "--force")
        await view.press("escape")
        await view.shows("killed")
    leave(home, shell)


async def test_events_spend_and_timeline_have_their_numbers(home: Instance, agent: str) -> None:
    async with top(home, (140, 40)) as view:
        await view.press("e")
        await view.shows("1 All events", f"sleeper-{agent}", "running")
        await view.press("2")
        await view.shows("spawned:")
        await view.hides("running:")
        await view.press("escape", "T")
        await view.shows("Timeline of the last 24 hours", f"sleeper-{agent}", "█ running")
        await view.press(*["down"] * 40, *["right"] * 9)
        await view.shows("running for ", " to now: the process started")
        await view.press("4")
        await view.shows(f"sleeper-{agent}: ", "running for ", "to now: the process started")
        await view.press("escape", "dollar_sign")
        await view.shows("Spend by tree", "no usage yet")
        await view.end_feed()
        used = {"input": 2000, "output": 500, "cache_read": 0, "cache_write": 0}
        spent = {"sessions": 1, "live": 1, "tokens": used, "cost_usd": 4.25}
        rows = [row_data("aaaaaaaa", cost_usd=4.25, tree=spent)]
        view.app.board.apply(update(rows, snapshot=True), time.monotonic())
        await view.shows("engineer-aaaaaaaa", "$4.25", "2k", "███")


async def test_pointer_on_the_timeline_gives_the_numbers_of_a_span(home: Instance, agent: str) -> None:
    async with top(home, (140, 40)) as view:
        await view.press("T")
        await view.shows(f"sleeper-{agent}", "the numbers of a span")
        lines = view.text().splitlines()
        y = next(number for number, line in enumerate(lines) if f"sleeper-{agent}" in line)
        await view.pilot.hover(offset=(137, y))
        await view.shows(f"sleeper-{agent}: running for ", " to now: the process started")


async def test_new_agent_starts_in_the_chosen_workspace(home: Instance) -> None:
    (home.work / "garden").mkdir()
    async with top(home) as view:
        await view.press("plus")
        await enter(view, "garden", str(home.work / "garden"))
        await view.shows("done: sm workspace create garden")
        await view.until(lambda: "garden" in [chip.slug for chip in view.app.chips], "its chip")
        view.app.choose("garden")
        await view.press("n", *"grow")
        sheet = view.app.screen
        assert isinstance(sheet, StartSheet)
        await view.shows("a copy of its own")
        sheet.query_one("#field-agent_type", Input).value = "Sleeper"
        sheet.query_one("#field-name", Input).value = "rose"
        await view.shows("sm spawn --name rose --workspace garden Sleeper grow")
        await view.press("ctrl+s")
        await view.shows("done: sm spawn --name rose --workspace garden Sleeper grow", "sleeper-rose")
        session = home.session("sleeper-rose")
        assert (session["workspace"], session["working_dir"]) == ("garden", str(home.work / "garden"))
        await view.press("b")
        await enter(view, "look here")
        await view.shows("Send to 1 live session of workspace garden?")
        await view.press("y")
        await view.shows("1 of 1 messages sent or queued", "✉1")
        view.app.choose(None)
    leave(home, session["session_id"])


async def test_new_agent_gets_the_workspace_of_the_selected_session(home: Instance) -> None:
    (home.work / "pond").mkdir()
    home.sm("workspace", "create", "pond", "--working-dir", str(home.work / "pond"))
    frog = home.spawn("Sleeper", "x", "--workspace", "pond")["session_id"]
    async with top(home, (120, 40)) as view:
        await view.select(frog)
        await view.press("n")
        await view.until(lambda: isinstance(view.app.screen, StartSheet), "the sheet")
        sheet = view.app.screen
        place = str(home.work / "pond")
        await view.until(
            lambda: sheet.query_one("#field-working_dir", Input).value == place,
            "the directory of its workspace",
        )
    leave(home, frog)


async def test_palette_says_that_nothing_has_the_words(home: Instance) -> None:
    async with top(home, (120, 40)) as view:
        await view.press("colon", *"zzz")
        await view.shows("nothing here has these words")
        await view.press("enter")
        await view.shows("nothing here has these words")
        await view.press("escape")
        await view.until(lambda: len(view.app.screen_stack) == 1, "the list")


async def test_keys_lead_through_the_fields_of_a_form(home: Instance) -> None:
    async with top(home) as view:
        await view.press("plus")
        await view.until(
            lambda: isinstance(view.app.screen, ActionForm) and view.app.screen.focused is not None,
            "the form",
        )
        form = view.app.screen
        for key, field in (("tab", "working_dir"), ("down", "slug"), ("up", "working_dir"), ("tab", "slug")):
            await view.press(key)
            assert form.focused is form.query_one(f"#field-{field}"), key
        await view.press("ctrl+s")
        await view.shows("a value is missing: Name of the workspace")
        await view.press("escape")
        await view.until(lambda: view.app.screen is not form, "the form closes")


async def test_session_is_renamed_moved_and_deleted(home: Instance, agent: str) -> None:
    moved = home.spawn("Sleeper", "x", "--name", "before")["session_id"]
    async with top(home) as view:
        await view.select(moved)
        await view.press("R")
        await enter(view, "after")
        await view.shows(f"done: sm rename {moved} after", "sleeper-after")
        await view.press("p")
        await enter(view, agent)
        await view.shows(f"done: sm reparent {moved} {agent}", "└─ sleeper-after")
        home.sm("kill", moved, "--force")
        await view.until(lambda: view.app.board.rows[moved].status == "killed", "the row is killed")
        await view.select(moved)
        await view.press("D")
        await view.shows("Delete sleeper-after with its messages and files?")
        await view.press("y")
        await view.shows(f"done: sm rm {moved}")
        await view.until(lambda: moved not in view.app.board.rows, "its row is gone")


async def test_session_with_work_that_exists_nowhere_else_is_not_deleted(home: Instance) -> None:
    repository = home.work / "repository"
    make_app(home.work).rename(repository)
    session = home.spawn("Sleeper", "x", "--name", "worker", "--worktree", cwd=repository)["session_id"]
    path = Path(home.session(session)["worktree"]["path"])
    (path / "new.txt").write_text("x\n")
    async with top(home) as view:
        await view.select(session)
        home.sm("kill", session, "--force")
        await view.until(
            lambda: (row := view.app.board.rows[session]).status == "killed" and not row.has_process,
            "it is killed, and its process has ended",
        )
        await view.select(session)
        await view.press("D")
        await view.shows(
            "Delete sleeper-worker with its messages and files (refused if its worktree has work that"
        )
        await view.press("y")
        await view.shows("failed: sleeper-worker has work in")
    assert home.session(session)["status"] == "killed"
    home.sm("rm", session, "--discard", "--yes")


async def test_archived_sessions_are_shown_on_demand(home: Instance, agent: str) -> None:
    old = home.spawn("Sleeper", "x", "--name", "old")["session_id"]
    leave(home, old)
    async with top(home) as view:
        await view.until(lambda: agent in view.app.board.rows, "the rows")
        assert old not in view.app.board.rows
        await view.press("A")
        await view.shows("archived sessions are shown", "sleeper-old")
        await view.press("A")
        await view.shows("archived sessions are hidden")
        await view.until(lambda: old not in view.app.board.rows, "its row is gone")


async def test_requests_are_shown_if_archived_sessions_were_chosen_before(
    home: Instance, tmp_path: Path
) -> None:
    session_id, key = propose_completion(home)
    kept = KeptChoices(str(tmp_path / "views.json"))
    kept.write(Choices(None, Sort.TREE, Theme.SYSTEM, True))
    async with top(home, kept=kept) as view:
        await view.until(lambda: key in {need.key for need in view.app.found}, "the request")
    leave(home, session_id)


@pytest.mark.parametrize("keys", [("d", *"no"), ("enter",)])
async def test_dialog_of_a_request_closes_when_somebody_else_answers(
    home: Instance, keys: tuple[str, ...]
) -> None:
    session_id, key = propose_completion(home)
    async with top(home) as view:
        await view.select_request(key)
        await view.press(*keys)
        await view.until(lambda: len(view.app.screen_stack) == 2, "the dialog")
        home.sm("approve", key)
        await view.until(lambda: len(view.app.screen_stack) == 1, "the dialog is closed")
        await view.shows(f"{key}: approved by operator")
    answer = request_of(home, key)["answer"]
    assert answer == {"approved": True, "answers": [], "message": None}
    leave(home, session_id)


async def test_brackets_and_the_palette_reach_every_workspace(home: Instance) -> None:
    names = [f"zone-{letter}" for letter in "abcdefghijkl"]
    for name in names:
        (home.work / name).mkdir()
        home.sm("workspace", "create", name, "--working-dir", str(home.work / name))
    async with top(home, (80, 24)) as view:
        await view.until(lambda: names[-1] in [chip.slug for chip in view.app.chips], "the chips")
        assert "zone-l" not in view.text().splitlines()[1]
        await view.press("left_square_bracket")
        await view.until(lambda: view.app.board.workspace == "zone-l", "its workspace")
        await view.until(lambda: "zone-l" in view.text().splitlines()[1], "the chosen chip is in sight")
        at = view.text().splitlines()[1].index("zone-k")
        await view.pilot.click("#chips", offset=(at, 0))
        await view.until(lambda: view.app.board.workspace == "zone-k", "its workspace")
        await view.press("right_square_bracket", "right_square_bracket")
        await view.until(lambda: view.app.board.workspace is None, "all sessions")
        await view.press("colon", *"zone-j")
        await view.shows("Workspace: zone-j (0)", "sm ls --all --workspace zone-j")
        await view.hides("zone-k")
        await view.press("enter")
        await view.until(lambda: view.app.board.workspace == "zone-j", "the chosen workspace")
        view.app.choose(None)


async def test_palette_names_the_command_of_each_action(home: Instance, agent: str) -> None:
    async with top(home, (140, 40)) as view:
        await view.select(agent)
        await view.press("colon", *"kill")
        await view.shows(f"Kill  [K]  sm kill {agent}")
        await view.press("escape", "colon", *"events", "enter")
        await view.shows("1 All events")


async def test_click_on_a_chip_chooses_its_workspace(home: Instance) -> None:
    (home.work / "mill").mkdir()
    home.sm("workspace", "create", "mill", "--working-dir", str(home.work / "mill"))
    async with top(home) as view:
        await view.shows(" mill ")
        at = view.text().splitlines()[1].index("mill")
        await view.pilot.click("#chips", offset=(at, 0))
        await view.until(lambda: view.app.board.workspace == "mill", "the chosen workspace")
        await view.pilot.click("#chips", offset=(2, 0))
        await view.until(lambda: view.app.board.workspace is None, "all sessions")
        await view.pilot.click("#chips", offset=(view.text().splitlines()[1].rindex("+"), 0))
        await view.shows("Create a workspace", "Name of the workspace:")


async def test_choices_are_kept_until_the_next_time(home: Instance, tmp_path: Path) -> None:
    (home.work / "farm").mkdir()
    home.sm("workspace", "create", "farm", "--working-dir", str(home.work / "farm"))
    kept = KeptChoices(str(tmp_path / "views.json"))
    async with top(home, kept=kept) as view:
        await view.shows(" farm ")
        view.app.choose("farm")
        await view.press("S", "C")
        await view.shows("colours: dark")
        for session_id, folded in (("aaaaaaaa", None), ("bbbbbbbb", True), ("aaaaaaaa", False)):
            view.app.fold(session_id, folded)
    chosen = Choices("farm", Sort.NEEDS_ME, Theme.DARK, False, ("bbbbbbbb",))
    assert KeptChoices(str(tmp_path / "views.json")).read() == chosen
    home.sm("workspace", "delete", "farm")
    async with top(home, kept=KeptChoices(str(tmp_path / "views.json"))) as view:
        await view.shows("order: needs me")
        await view.until(lambda: view.app.choices.workspace is None, "all sessions, as the workspace is gone")
        assert view.app.theme == "sm-dark"
        assert list(view.app.board.folded) == ["bbbbbbbb"]


async def test_top_says_when_the_daemon_has_another_version(
    home: Instance, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.cli.tui.board_app.__version__", "0.0.1")
    async with top(home) as view:
        await view.shows("the daemon has version ", ": restart sm top")


async def test_prompt_says_what_will_happen_to_a_message(home: Instance, agent: str) -> None:
    async with top(home, (120, 30)) as view:
        await view.select(agent)
        await view.press("s")
        await view.shows("will be queued until the program reads its inbox")


async def test_ten_thousand_sessions_are_listed_filtered_and_folded(home: Instance) -> None:
    name = "名" * 200
    rows = [
        row_data(
            f"{number:08x}",
            name=f"{name}{number}" if number % 100 == 0 else f"agent-{number}",
            parent_session_id=f"{number - 1:08x}" if number % 20 else None,
            status="killed" if number % 5 == 0 else "running",
            archived=number % 5 == 0,
            note="\x1b[31m\u202e<b>",
        )
        for number in range(10_000)
    ]
    async with top(home, (100, 30)) as view:
        await view.end_feed()
        view.app.board.apply(update(rows, snapshot=True), time.monotonic())
        await view.shows("8000 live, 2000 ended", "agent-1 ")
        await view.press("G")
        await view.shows("agent-9999")
        await view.press("/", *"agent-77")
        await view.until(lambda: len(view.app.board.lines) == 110, "the filtered lines")
        await view.press("enter", "escape", "g", "left")
        await view.shows("▸19")
        assert "\x1b" not in view.text() and "\u202e" not in view.text()
