"""What a command may cost: speed is measured in bench/, here stands what must not be loaded."""

import subprocess
import sys

import pytest

from tests.cli.conftest import Sm
from tests.cli.peer import Peer, answer
from tests.cli.samples import message, request, session

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
FOREIGN = {"rich", "pydantic", "yaml", "aiohttp", "aiosqlite", "orjson", "docker", "telegram", "mcp"}

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


def test_the_client_loads_c_modules_only(run: Sm) -> None:
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


def test_the_entry_of_the_command_loads_nothing(run: Sm) -> None:
    assert loaded("import sm.cli", run.environ) - loaded("", run.environ) == {"sm", "sm.cli"}


@pytest.mark.parametrize("words", [["children"], ["children", "--json"], ["status"], ["all"], ["me"]])
def test_a_command_loads_itself_and_nothing_heavy(run: Sm, peer: Peer, words: list[str]) -> None:
    for path in ("/v1/sessions/-/children", "/v1/sessions"):
        peer.script(f"GET {path}", answer([session()]))
    peer.script("GET /v1/me", answer(session()))
    daemon = {"pid": 1, "version": "1", "uptime_s": 1}
    status = {"daemon": daemon, "sessions": {}, "trouble": [], "inbox_lines": ["a child completed"]}
    counts = dict.fromkeys(("orphans", "dead_letters", "requests_open", "inbox"), 0)
    peer.script("GET /v1/status", answer(status | counts))
    found = loaded(f"from sm.cli.group import run; run({words!r})", run.environ)
    assert not found & (HEAVY | FOREIGN)
    commands = {name for name in found if name.startswith("sm.cli.")}
    plumbing = {"group", "instance", "call", "display", "commands", f"commands.{words[0]}"}
    plumbing |= {"display.text", "display.output"}
    lists = {"session_list", "options", "display.sessions"}
    own = {
        "children": lists,
        "all": lists,
        "status": {"display.overview", "options"},
        "me": {"display.sessions"},
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
def test_a_command_of_messages_and_requests_loads_nothing_heavy(
    run: Sm, peer: Peer, words: list[str]
) -> None:
    peer.script("POST /v1/messages", answer(message(status="submitted")))
    peer.script("GET /v1/messages", answer([message(text="hello")]))
    peer.script("GET /v1/inbox", answer([message(shown="[sm] from operator, message 57\nhello")]))
    peer.script("POST /v1/inbox/take", answer([]))
    peer.script("GET /v1/requests", answer([request()]))
    peer.script("POST /v1/requests/r1/answer", answer(request()))
    peer.script("GET /v1/sessions/x/output", answer({"lines": ["[ok] the programs"]}))
    peer.script("POST /v1/sessions/x/archive", answer(session()))
    found = loaded(f"from sm.cli.group import run; run({words!r})", run.environ)
    assert f"sm.cli.commands.{words[0]}" in found
    assert not found & (HEAVY | FOREIGN)
    assert ("sm.core.text" in found) == (words[0] == "requests"), "what only hostile or quoted text needs"
