"""The layout of tables, and questions, on a terminal of a given width."""

import json
import re

import pytest

from sm.core.columns import columns
from tests.cli.peer import Script, answer, error
from tests.cli.samples import message, overview_row, progress, request, session
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer


def lines(run: Sm, *words: str, width: int = 80) -> list[str]:
    """Return the output as lines without styles and trailing blanks."""
    shown = run.screen(*words, width=width, environ={"NO_COLOR": "1"})
    return [line.rstrip() for line in re.sub("\x1b\\[[0-9;]*m", "", shown).splitlines()]


@pytest.fixture
def sessions(peer: Peer) -> Peer:
    peer.script(
        "GET /v1/sessions",
        answer(
            [
                session("abc12345", friendly_name="日本", status="error", completion_message="日" * 300),
                session(
                    "def45678",
                    friendly_name="engineer-task1043",
                    parent_session_id="abc12345",
                    note="[b]x[/b] :smile:",
                ),
            ]
        ),
    )
    return peer


def test_table_fits_the_terminal_width_by_cutting_the_text_column(run: Sm, sessions: Peer) -> None:
    first, second = lines(run, "all")
    assert re.match(r"日本 \(abc12345\) +\| error +\| \d+d ago \| \"日", first)
    assert columns(first) in (79, 80)
    assert first.endswith("…")
    assert second.startswith("  └─ engineer-task1043 (def45678) | running | ")
    assert second.endswith(" | [b]x[/b] :smile:")


@pytest.mark.parametrize("width", [64, 68])
def test_table_wraps_name_and_id_on_a_narrow_terminal(run: Sm, sessions: Peer, width: int) -> None:
    shown = lines(run, "all", width=width)
    assert max(map(columns, shown)) <= width
    names = "".join(line.partition("|")[0].replace(" ", "") for line in shown)
    assert names == "日本(abc12345)└─engineer-task1043(def45678)"
    assert any("| running | " in line for line in shown)


def test_table_cuts_lines_when_terminal_is_too_narrow_for_columns(run: Sm, sessions: Peer) -> None:
    shown = lines(run, "all", width=40)
    assert [columns(line) for line in shown] == [40, 40]
    assert all(line.endswith("…") for line in shown)


def test_table_equals_plain_text_on_a_wide_terminal(run: Sm, sessions: Peer) -> None:
    sessions.script("GET /v1/sessions/-/children", answer([session(status="idle")]))
    assert lines(run, "children", width=200) == run("children").out.splitlines()


@pytest.mark.parametrize(
    ("environ", "colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_status_is_coloured_when_terminal_supports_colours(
    run: Sm, sessions: Peer, environ: dict[str, str], colour: bool
) -> None:
    assert ("\x1b[31merror" in run.screen("all", environ=environ)) is colour
    assert ("\x1b" in run.screen("all", environ=environ)) is colour


def test_terminal_width_takes_precedence_over_columns_variable(run: Sm, sessions: Peer) -> None:
    assert (
        max(
            map(
                columns,
                run.screen("all", width=100, environ={"COLUMNS": "40", "NO_COLOR": "1"}).splitlines(),
            )
        )
        == 100
    )


@pytest.mark.parametrize("width", [80, 100])
def test_agents_shows_the_whole_problem_of_a_definition_on_a_terminal(
    run: Sm, peer: Peer, width: int
) -> None:
    place = "/home/ann/projects/shop/.sm/agents/reviewer.md"
    broken: dict[str, object] = {
        "name": "reviewer",
        "provider": "claude",
        "model": None,
        "description": None,
        "spawnable": False,
        "origin": place,
        "problem": "1:1: the file must begin with settings between two lines of three dashes (---)",
        "shadowed_by": None,
        "warnings": [],
    }
    new = broken | {"name": "tester", "problem": None, "agreement": "new"}
    peer.script("GET /v1/agents", answer({"workspace": "shop", "agents": [broken, new], "warnings": []}))
    words = " ".join(" ".join(lines(run, "agents", width=width)).replace("|", " ").split())
    assert "between two lines of three dashes (---)" in words
    assert "sm workspace agree shop" in words


def test_requests_wraps_a_summary_between_words_on_a_terminal(run: Sm, peer: Peer) -> None:
    question = {"question": "Which days should the job run?", "options": ["monday", "friday", "sunday"]}
    peer.script("GET /v1/requests", answer([request(questions=[question])]))
    shown = lines(run, "requests", width=58)
    assert shown[1:3] == [
        '  "Which days should the job run?" [1: "monday", 2:',
        '  "friday", 3: "sunday"]',
    ]


@pytest.mark.parametrize("width", [80, 100])
def test_requests_are_blocks_with_whole_commands_on_a_terminal(run: Sm, peer: Peer, width: int) -> None:
    command = f"npm install {'x' * 100}"
    asked = {"kind": "permission", "questions": [], "tool": "Bash"}
    peer.script(
        "GET /v1/requests",
        answer(
            [
                request(7),
                request(8, **asked, arguments={"command": command, "run_in_background": True}),
                request(
                    9, **asked, arguments={"command": "make"}, state="cancelled", reason="the process ended"
                ),
            ]
        ),
    )
    shown = [re.sub(r"\d+d ago", "now", line) for line in lines(run, "requests", "--all", width=width)]
    assert max(map(columns, shown)) <= width
    assert shown[:3] == [
        "r7 | question of engineer-login | open | now",
        '  "Which database?" [1: "sqlite", 2: "postgres"]',
        "  sm answer r7 TEXT",
    ]
    assert shown[3:5] == ["", "r8 | permission of engineer-login | open | now"]
    bars = [line.removeprefix("  | ") for line in shown if line.startswith("  | ")]
    assert json.loads("".join(bars)) == {"command": command, "run_in_background": True}
    words = "".join(shown[5 : shown.index(f"  | {bars[0]}")])
    assert words.replace(" ", "") == f'"Bash: {command}"'.replace(" ", "")
    assert "  sm approve r8, or: sm deny r8 'WHY'" in shown
    assert shown[-3:] == [
        "",
        "r9 | permission of engineer-login | cancelled | now",
        '  "Bash: make" - the process ended',
    ]


@pytest.mark.parametrize("width", [60, 80])
def test_watched_progress_is_cut_to_the_width_and_has_the_word_of_the_lists(
    run: Sm, peer: Peer, width: int
) -> None:
    output = [f"{n} {'日本' * 40}" for n in range(3)]
    answered = answer(progress(last_output=output, is_complete=True))
    peer.script("GET /v1/sessions/1a2b3c4d/progress", answered)
    shown = run.screen("progress", "1a2b3c4d", "--watch", width=width, environ={"NO_COLOR": "1"})
    assert "engineer-task1043 (1a2b3c4d) | running | 3min elapsed" in shown
    rows = [row for row in re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", shown).splitlines() if "日" in row]
    assert rows
    assert all(row[2].isdigit() and columns(row) <= width for row in rows)
    assert "| working |" in run("progress", "1a2b3c4d").out


@pytest.fixture
def overview(peer: Peer) -> Peer:
    rows = [
        overview_row("00000001", friendly_name="architect-plan", task="w" * 300),
        overview_row(
            "00000002", friendly_name="engineer-api", parent_session_id="00000001", attention="idle"
        ),
        overview_row(
            "00000003",
            friendly_name="engineer-login",
            status="waiting_input",
            attention="waiting",
            task="r57 asks: [b]Which?[/b] :smile:",
        ),
    ]
    peer.script("GET /v1/overview", answer(rows))
    return peer


@pytest.mark.parametrize("width", [80, 120])
def test_ls_groups_agents_and_cuts_tasks_to_the_terminal_width(run: Sm, overview: Peer, width: int) -> None:
    shown = lines(run, "ls", width=width)
    assert shown[0].split()[:3] == ["NAME", "STATUS", "AGE"]
    assert shown[1:3] == ["", "Needs you"]
    assert shown[3].startswith("engineer-login   waiting_input  ")
    assert shown[3].endswith("  r57 asks: [b]Which?[/b] :smile:")
    assert shown[4:6] == ["", "Working"]
    assert shown[6].startswith("architect-plan   running        ")
    assert shown[6].endswith("w…")
    assert columns(shown[6]) == width
    assert shown[7].startswith("└─ engineer-api  running        ")
    assert len(shown) == 8


def test_ls_is_one_table_without_groups_when_output_is_no_terminal(run: Sm, overview: Peer) -> None:
    out = run("ls").out.splitlines()
    assert [line.split()[0] for line in out] == ["NAME", "engineer-login", "architect-plan", "└─"]


def test_kill_all_asks_on_a_terminal(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/sessions", answer([session(f"0000000{n}") for n in range(7)]))
    for n in range(7):
        killed = session(f"0000000{n}", status="killed", killed=[f"0000000{n}"], killed_too=[])
        peer.script(f"POST /v1/sessions/0000000{n}/kill", answer(killed))
    shown = run.screen("kill", "--all", typed="n\n", code=4, width=200)
    assert "Kill 7 sessions: engineer-00000000, " in shown
    assert " and 2 more? [y/N] " in shown
    assert len(peer.received) == 1
    assert "Killed engineer-00000006" in run.screen("kill", "--all", typed="y\n", width=200)
    assert "[y/N]" not in run.screen("kill", "--all", "--yes", typed=" ", width=200)


def test_broadcast_names_the_workspaces_it_reaches_and_asks_on_a_terminal(run: Sm, peer: Peer) -> None:
    audience = [
        session(f"0000000{n}", workspace=slug) for n, slug in enumerate(["shop", None, "shop", "api"])
    ]
    peer.script("GET /v1/audience", answer(audience))
    peer.script("POST /v1/messages", answer(message(status="submitted")))
    question = "Send to 4 agents: 2 of workspace shop, 1 without a workspace, 1 of workspace api? [y/N] "
    assert question in run.screen("broadcast", "Stop", typed="n\n", code=4, width=200)
    assert len(peer.received) == 1
    assert "Input sent to session 1a2b3c4d" in run.screen("broadcast", "Stop", typed="y\n", width=200)
    assert len(peer.requests_to("/v1/messages")) == 4
    assert "[y/N]" not in run.screen("broadcast", "Stop", "--yes", typed=" ", width=200)


def test_restore_asks_on_a_terminal_before_a_session_goes_on_without_a_sandbox(run: Sm, peer: Peer) -> None:
    over = error("fallback_over", "session x ran directly", 409, "sm restore x --trust direct")
    back = session("abc12345", restored=["abc12345"], restored_too=[], continued=[], failed=[])
    path = "/v1/sessions/abc12345/restore"
    peer.script(f"POST {path}", over, over, over, answer(back))
    assert "[y/N]" not in run("restore", "abc12345", code=9).err
    shown = run.screen("restore", "abc12345", typed="n\n", code=9, width=200)
    assert "session x ran directly. Go on without a sandbox? [y/N] " in shown
    assert "Restored engineer-abc12345" in run.screen("restore", "abc12345", typed="y\n", width=200)
    assert [asked.json["trust"] for asked in peer.requests_to(path)] == [None, None, None, "direct"]


def untrusted(peer: Script) -> None:
    refused = {"code": "directory_not_trusted", "message": "claude does not trust /p", "hint": "sm trust /p"}
    peer.script("POST /v1/sessions", answer({"error": refused | {"directory": "/p"}}, 409))


def test_spawn_takes_the_end_of_input_for_a_no_when_it_asks_for_trust(run: Sm, peer: Peer) -> None:
    untrusted(peer)
    shown = run.screen("spawn", "Engineer", "Fix it", typed="\x04", code=9, width=200)
    assert "Its agents can run the files in it. [y/N] " in shown
    assert "claude does not trust /p" in shown
    assert "internal error" not in shown


def test_wait_on_a_terminal_names_a_session_that_waits_for_input_once(run: Sm, peer: Peer) -> None:
    blocked = session(
        "abc12345", status="waiting_input", status_reason="claude asks for permission: Bash: ls"
    )
    peer.script("GET /v1/health", answer({}))
    polls = [answer({"reached": None, "sessions": [blocked]})] * 2
    peer.script("POST /v1/wait", *polls, answer({"reached": True, "sessions": [session("abc12345")]}))
    shown = run.screen("wait", "abc12345", "--until", "idle", typed="\n")
    told = "engineer-abc12345 waits for input: claude asks for permission: Bash: ls  (sm requests)\n"
    assert shown.count(told) == 1
    assert [poll.json["wait_s"] for poll in peer.requests_to("/v1/wait")] == [5.0] * 3


def test_broadcast_of_an_agent_does_not_ask_on_a_terminal(agent: Sm, peer: Peer) -> None:
    peer.script("GET /v1/audience", answer([session("00000001")]))
    peer.script("POST /v1/messages", answer(message(status="submitted")))
    assert "[y/N]" not in agent.screen("broadcast", "Stop", typed="n\n")
    assert len(peer.requests_to("/v1/messages")) == 1


def test_attach_without_a_session_shows_a_menu_on_a_terminal(run: Sm, overview: Peer) -> None:
    shown = run.screen("attach", typed="\n", code=4)
    assert "1  engineer-login   waiting_input  " in shown
    assert "2  architect-plan   running        " in shown
    assert "Attach to (1-3): " in shown
    assert "cancelled" in shown
    overview.script("GET /v1/sessions/00000001/attach", error("not_found", "the second one", 404))
    assert run.screen("attach", typed="2\n", code=3).endswith("sm: the second one\n")
