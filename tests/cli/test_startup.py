"""Modules that a command may load. Speed is measured in bench/."""

import subprocess
import sys

import pytest

from sm.cli.group import MODULES
from tests.cli.conftest import Sm
from tests.cli.peer import Peer, answer
from tests.cli.samples import message, overview_row, request, session

HEAVY = {
    "json",
    "socket",
    "ssl",
    "http",
    "urllib",
    "subprocess",
    "pathlib",
    "dataclasses",
    "asyncio",
    "logging",
}
FOREIGN = {
    "rich",
    "pygments",
    "pydantic",
    "yaml",
    "aiohttp",
    "aiosqlite",
    "orjson",
    "docker",
    "mcp",
    "telegram",
    "httpx",
    "textual",
    "segno",
}

LOADED = "import sys, os\n{}\nsys.stderr.write(repr(sorted(m for m in sys.modules)))"


def loaded(code: str, environ: dict[str, str]) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n" + LOADED.format(code)],
        capture_output=True,
        text=True,
        env=environ,
        check=True,
    )
    names = eval(done.stderr.splitlines()[-1])
    return {name.partition(".")[0] if not name.startswith("sm.") else name for name in names}


def test_client_loads_only_c_modules_and_its_own(run: Sm) -> None:
    bare = loaded("", run.environ)
    more = loaded("import sm.client.http", run.environ) - bare
    assert more == {
        "sm",
        "sm.client",
        "sm.client.connection",
        "sm.client.http",
        "sm.errors",
        "sm.paths",
        "sm.wire",
        "_socket",
        "_json",
    }


def test_cli_entry_point_loads_no_other_module(run: Sm) -> None:
    assert loaded("import sm.cli", run.environ) - loaded("", run.environ) == {"sm", "sm.cli"}


def test_help_all_imports_no_command_module(run: Sm) -> None:
    modules = loaded("from sm.cli.group import run; run(['help', '--all'])", run.environ)
    assert [name for name in modules if name.startswith("sm.cli.commands.")] == ["sm.cli.commands.help"]


@pytest.mark.parametrize("words", [["children"], ["children", "--json"], ["status"], ["all"], ["me"]])
def test_list_command_loads_no_heavy_module(run: Sm, peer: Peer, words: list[str]) -> None:
    for path in ("/v1/sessions/-/children", "/v1/sessions"):
        peer.script(f"GET {path}", answer([session()]))
    peer.script("GET /v1/me", answer(session()))
    daemon = {"pid": 1, "version": "1", "uptime_s": 1}
    status = {"daemon": daemon, "sessions": {}, "trouble": [], "inbox_lines": ["a child completed"]}
    counts = dict.fromkeys(("orphans", "dead_letters", "requests_open", "inbox"), 0)
    peer.script("GET /v1/status", answer(status | counts))
    modules = loaded(f"from sm.cli.group import run; run({words!r})", run.environ)
    assert not modules & (HEAVY | FOREIGN)
    commands = {name for name in modules if name.startswith("sm.cli.")}
    plumbing = {
        "group",
        "instance",
        "call",
        "display",
        "commands",
        f"commands.{MODULES.get(words[0], words[0])}",
    }
    plumbing |= {"display.output", "display.text_table"}
    lists = {"options", "pages", "display.sessions"}
    own = {
        "children": lists,
        "all": lists,
        "status": {"display.overview", "options"},
        "me": set[str](),
    }
    assert commands == {f"sm.cli.{name}" for name in plumbing | own[words[0]]}


@pytest.mark.parametrize(
    "words",
    [
        ["send", "x", "hello"],
        ["inbox"],
        ["inbox", "--take"],
        ["log"],
        ["requests"],
        ["approve", "r1"],
        ["output", "x"],
        ["archive", "x"],
    ],
)
def test_message_or_request_command_loads_no_heavy_module(run: Sm, peer: Peer, words: list[str]) -> None:
    peer.script("POST /v1/messages", answer(message(status="submitted")))
    peer.script("GET /v1/messages", answer([message(text="hello")]))
    peer.script("GET /v1/inbox", answer([message(shown="[sm] from operator, message 57\nhello")]))
    peer.script("POST /v1/inbox/take", answer([]))
    peer.script("GET /v1/requests", answer([request()]))
    peer.script("POST /v1/requests/r1/answer", answer(request()))
    peer.script("GET /v1/sessions/x/output", answer({"lines": ["[ok] the programs"]}))
    peer.script("POST /v1/sessions/x/archive", answer(session()))
    modules = loaded(f"from sm.cli.group import run; run({words!r})", run.environ)
    assert f"sm.cli.commands.{MODULES.get(words[0], words[0])}" in modules
    assert not modules & (HEAVY | FOREIGN)
    assert ("sm.core.text" in modules) == (words[0] == "requests"), "only quoted text needs this module"


def test_ls_loads_no_foreign_module_when_output_is_no_terminal(run: Sm, peer: Peer) -> None:
    peer.script("GET /v1/overview", answer([overview_row()]))
    assert not loaded("from sm.cli.group import run; run(['ls'])", run.environ) & FOREIGN


def test_diff_loads_no_foreign_module_when_output_is_no_terminal(run: Sm) -> None:
    modules = loaded("import sm.cli.commands.diff, sm.cli.session_patch", run.environ)
    assert "sm.core.patches" in modules
    assert not modules & FOREIGN


def test_top_loads_neither_click_nor_actions_before_its_first_rows(run: Sm) -> None:
    # Its view is imported before it misses its terminal. The module that prints the error imports click.
    print_at_error = (
        "def look(event, arguments):\n"
        "    if event == 'import' and arguments[0] == 'sm.cli.display.errors':\n"
        "        sys.stderr.write(repr(sorted(sys.modules)))\n"
        "        sys.stderr.flush()\n"
        "        os._exit(0)\n"
        "import os, sm.cli\n"
        "sys.addaudithook(look)\n"
        "sys.argv = ['sm', 'top']\n"
        "sm.cli.main()"
    )
    modules = loaded(print_at_error, run.environ)
    assert "sm.cli.tui.app" in modules
    assert "click" not in modules
    rooms = {name.split(".")[1] for name in modules if name.startswith("sm.")}
    assert rooms == {"board", "cli", "client", "core", "errors", "feed", "linux", "paths", "registry", "wire"}
    assert not modules & {f"sm.board.{name}" for name in ("actions", "main_actions", "spawn_action")}
    view = {
        "app",
        "appearance",
        "below_list",
        "board_app",
        "cells",
        "filter_field",
        "kept",
        "layout",
        "list_lines",
    }
    view |= {"ending", "notices", "peek", "process", "rows_view", "screens", "source", "start", "texts"}
    assert {name for name in modules if name.startswith("sm.cli.tui.")} == {
        f"sm.cli.tui.{name}" for name in view
    }
    assert not modules & {
        f"sm.core.{name}" for name in ("models", "requests", "usage", "estimates", "attention")
    }
