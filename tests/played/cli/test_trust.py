"""`sm trust` adds one entry to the file of claude and changes nothing else."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any, Self

import pytest

from tests.cli.peer import answer, error
from tests.cli.samples import decision, request
from tests.played.cli.command import Sm
from tests.played.cli.peer import Peer
from tests.sim.loop import VirtualLoop
from tests.sim.processes import PlayedProcess

KEPT = {
    "numStartups": 3,
    "hasCompletedOnboarding": True,
    "projects": {"/srv/other": {"allowedTools": [], "history": [{"display": "fünf \U0001f600"}]}},
    "empty": {},
    "last": "é",
}


@pytest.fixture
def claude(home: Path) -> Path:
    """The settings file of claude."""
    path = home / ".claude.json"
    path.write_text(json.dumps(KEPT, indent=2, ensure_ascii=False))
    path.chmod(0o600)
    return path


@pytest.fixture
def project(home: Path) -> Path:
    path = home / "proj"
    path.mkdir()
    return path


def running(config: Path, pid: int, started: str | None) -> None:
    (config / "sessions").mkdir(parents=True)
    state: dict[str, Any] = {"pid": pid, "status": "idle"}
    (config / "sessions" / f"{pid}.json").write_text(
        json.dumps(state if started is None else {**state, "procStart": started})
    )


def claude_process(run: Sm) -> PlayedProcess:
    """Start a claude."""
    return run.instance.world.kernel.start(("claude",), run.environ, "/")


def test_trust_adds_the_directory_and_keeps_everything_else(run: Sm, claude: Path, project: Path) -> None:
    before = {path.name for path in claude.parent.iterdir()}
    done = run("trust", str(project))
    assert done.out == f"claude trusts {project} and all directories below it (written to {claude})\n"
    projects = {**KEPT["projects"], str(project): {"hasTrustDialogAccepted": True}}  # type: ignore[dict-item]
    assert claude.read_text() == json.dumps({**KEPT, "projects": projects}, indent=2, ensure_ascii=False)
    assert stat.S_IMODE(claude.stat().st_mode) == 0o600
    assert {path.name for path in claude.parent.iterdir()} == before


def test_trust_keeps_keys_and_order_of_an_existing_entry(run: Sm, claude: Path, project: Path) -> None:
    entry = {"a": 1, "hasTrustDialogAccepted": False, "z": [2]}
    claude.write_text(json.dumps({"projects": {str(project): entry, "/x": {}}, "half": "\ud83d"}))
    run("trust", str(project))
    after = json.loads(claude.read_text())
    assert list(after["projects"].items()) == [
        (str(project), {"a": 1, "hasTrustDialogAccepted": True, "z": [2]}),
        ("/x", {}),
    ]
    assert list(after["projects"][str(project)]) == ["a", "hasTrustDialogAccepted", "z"]
    assert after["half"] == "\ud83d"


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_trust_keeps_the_file_mode(run: Sm, claude: Path, project: Path, mode: int) -> None:
    claude.chmod(mode)
    run("trust", str(project))
    assert stat.S_IMODE(claude.stat().st_mode) == mode


def test_trust_writes_nothing_when_directory_is_already_trusted(run: Sm, claude: Path, project: Path) -> None:
    (project / "sub").mkdir()
    run("trust", str(project))
    before = (claude.read_bytes(), claude.stat().st_mtime_ns, claude.stat().st_ino)
    assert run("trust", str(project)).out == f"claude already trusts {project} (in {claude})\n"
    by_parent = f"claude already trusts {project}/sub, because it trusts {project} (in {claude})\n"
    assert run("trust", str(project / "sub")).out == by_parent
    assert before == (claude.read_bytes(), claude.stat().st_mtime_ns, claude.stat().st_ino)


def test_trust_prints_the_result_as_json(run: Sm, claude: Path, project: Path) -> None:
    (project / "sub").mkdir()
    first = json.loads(run("trust", str(project), "--json").out)
    assert first == {
        "directory": str(project), "trusted_by": str(project), "changed": True, "file": str(claude),
        "answered": [],
    }  # fmt: skip
    second = json.loads(run("trust", str(project / "sub"), "--json").out)
    assert second == first | {"directory": str(project / "sub"), "changed": False}


def test_trust_follows_links_and_does_not_replace_the_links(
    run: Sm, claude: Path, project: Path, home: Path
) -> None:
    (home / "dotfiles").mkdir()
    claude.rename(home / "dotfiles" / "claude.json")
    claude.symlink_to(home / "dotfiles" / "claude.json")
    (home / "link").symlink_to(project)
    run("trust", str(home / "link"))
    assert claude.is_symlink()
    assert str(project) in json.loads(claude.read_text())["projects"]


@pytest.mark.parametrize(
    ("configured", "inherited", "where"),
    [
        ("claude: {env: {CLAUDE_CONFIG_DIR: HOME/agents}}", True, "agents"),
        ("claude: {env: {HOME: HOME/agents}, agent_configs: {}}", False, "agents"),
        ("claude: {env: {HOME: HOME/agents}}", True, "cfg"),
        ("", True, "cfg"),
        ("", False, "."),
        ("sessions: {inherit_environment_vars: [PATH]}", True, "."),
    ],
)
def test_trust_writes_the_claude_file_that_agents_use(
    run: Sm, claude: Path, project: Path, home: Path, configured: str, inherited: bool, where: str
) -> None:
    (home / "config.yaml").write_text(configured.replace("HOME/", f"{home}/"))
    for name in ("cfg", "agents"):
        (home / name).mkdir()
        (home / name / ".claude.json").write_text("{}")
    environ = {"CLAUDE_CONFIG_DIR": str(home / "cfg")} if inherited else {}
    file = home / where / ".claude.json"
    assert f"(written to {file})" in run("trust", str(project), environ=environ).out
    for name in (".", "cfg", "agents"):
        written = str(project) in (home / name / ".claude.json").read_text()
        assert written is (name == where), name
    assert f"already trusts {project} (in {file})" in run("trust", str(project), environ=environ).out


def test_trust_writes_nothing_when_config_is_invalid(
    run: Sm, claude: Path, project: Path, home: Path
) -> None:
    (home / "config.yaml").write_text("nonsense: 1\n")
    assert "nonsense" in run("trust", str(project), code=2).err
    assert str(project) not in claude.read_text()


class Undoing:
    """A claude that overwrites changes of the file with its own copy, `times` times."""

    def __init__(self, loop: VirtualLoop, path: Path, times: int) -> None:
        self._loop = loop
        self._path = path
        self._own = path.read_bytes()
        self._times = times
        self.done = 0

    def __enter__(self) -> Self:
        self._task = self._loop.create_task(self._run())
        return self

    def __exit__(self, *_: object) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            if self.done < self._times and self._path.read_bytes() != self._own:
                new = self._path.with_name("copy")
                new.write_bytes(self._own)
                new.rename(self._path)
                self.done += 1


@pytest.mark.parametrize("has_start_time", [True, False])
@pytest.mark.parametrize("times", [0, 1, 2])
def test_trust_writes_the_entry_again_when_a_running_claude_removes_the_entry(
    run: Sm, claude: Path, project: Path, home: Path, has_start_time: bool, times: int
) -> None:
    process = claude_process(run)
    running(home / ".claude", process.pid, str(process.start) if has_start_time else None)
    with Undoing(run.instance.loop, claude, times) as undoing:
        done = run("trust", str(project))
    assert undoing.done == times
    assert f"claude is running (pid {process.pid}) and has not overwritten the entry" in done.out
    assert json.loads(claude.read_text())["projects"][str(project)] == {"hasTrustDialogAccepted": True}
    assert "already" in run("trust", str(project)).out


def test_trust_exits_4_when_running_claude_keeps_removing_the_entry(
    run: Sm, claude: Path, project: Path, home: Path
) -> None:
    process = claude_process(run)
    running(home / ".claude", process.pid, str(process.start))
    before = claude.read_bytes()
    with Undoing(run.instance.loop, claude, 10_000):
        done = run("trust", str(project), code=4)
    assert f"running claude processes (pid {process.pid}) keep overwriting the change to {claude}" in done.err
    assert "hint: end these processes first" in done.err
    assert claude.read_bytes() == before
    assert sorted(path.name for path in home.iterdir() if path.is_file()) == [".claude.json"]


def test_trust_ignores_state_files_of_claude_processes_that_ended(
    run: Sm, claude: Path, project: Path, home: Path
) -> None:
    running(home / ".claude", claude_process(run).pid, "1")
    (home / ".claude" / "sessions" / "999999999.json").write_text("{}")
    (home / ".claude" / "sessions" / "notes.json").write_text("{}")
    assert "running" not in run("trust", str(project)).out


def test_trust_is_refused_when_a_session_calls_the_command(
    run: Sm, claude: Path, project: Path, state: Path
) -> None:
    done = run("trust", str(project), code=5, environ=run.as_session(state))
    assert "only the operator" in done.err
    assert str(project) not in claude.read_text()


def test_trust_creates_nothing_when_claude_was_never_started(run: Sm, project: Path, home: Path) -> None:
    program = home / "bin" / "claude"
    program.parent.mkdir()
    program.touch(0o700)
    run.environ["PATH"] = str(program.parent)
    before = sorted(home.iterdir())
    done = run("trust", str(project), code=4)
    assert "has never been started" in done.err
    assert "hint: start claude once in a terminal: claude" in done.err
    assert sorted(home.iterdir()) == before


def test_trust_says_that_claude_is_not_installed(run: Sm, project: Path, home: Path) -> None:
    run.environ["PATH"] = str(home / "bin")
    before = sorted(home.iterdir())
    done = run("trust", str(project), code=9)
    assert done.err == (
        "sm: claude is not installed: there is no claude on your PATH\n"
        "hint: npm install -g --prefix ~/.local @anthropic-ai/claude-code, then run claude once in a terminal and "
        "log in\n"
    )
    assert sorted(home.iterdir()) == before


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "is not JSON"),
        ("[1]", "does not contain a JSON object"),
        ('{"projects": []}', "has an unknown form"),
        ('{"projects": {"DIR": 1}}', "has an unknown form"),
    ],
)
def test_trust_leaves_an_unknown_file_unchanged(
    run: Sm, claude: Path, project: Path, content: str, expected: str
) -> None:
    claude.write_text(content.replace("DIR", str(project)))
    before = claude.read_bytes()
    assert expected in run("trust", str(project), code=9).err
    assert claude.read_bytes() == before


@pytest.mark.parametrize(("name", "expected"), [("none", "does not exist"), ("file", "is not a directory")])
def test_trust_accepts_only_existing_directories(
    run: Sm, claude: Path, home: Path, name: str, expected: str
) -> None:
    (home / "file").touch()
    assert expected in run("trust", str(home / name), code=2).err


def test_trust_shows_what_claude_will_do_without_a_question(run: Sm, claude: Path, project: Path) -> None:
    (project / ".claude").mkdir()
    settings = {"apiKeyHelper": "evil.sh\nfine\x1b[2J\u202e", "statusLine": "x" * 2_000}
    (project / ".claude" / "settings.json").write_text(json.dumps(settings))
    done = run("trust", str(project))
    file = f"{project}/.claude/settings.json"
    lines = done.err.splitlines()
    assert lines[:3] == [
        f"In {project}, claude does this without a question:",
        f"  | {file}: apiKeyHelper runs evil.sh",
        "  | fine<U+001B>[2J<U+202E>",
    ]
    assert lines[3].endswith("xxx...")
    # A script gave the command, so it is carried out.
    assert done.out.startswith(f"claude trusts {project} ")


def test_trust_shows_at_most_30_effects(run: Sm, claude: Path, project: Path) -> None:
    servers = {f"s{n}": {"command": "x"} for n in range(32)}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert run("trust", str(project)).err.splitlines()[-1] == "  and 2 more"


def test_trust_bypass_adds_one_setting_and_keeps_the_others(run: Sm, claude: Path) -> None:
    settings = claude.parent / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"hooks": {"Stop": []}, "last": "é"}))
    settings.chmod(0o640)
    done = run("trust", "--bypass")
    assert done.out == f"agents of claude may now bypass permissions (in {settings})\n"
    expected = {"hooks": {"Stop": []}, "last": "é", "skipDangerousModePermissionPrompt": True}
    assert json.loads(settings.read_text()) == expected
    assert stat.S_IMODE(settings.stat().st_mode) == 0o640
    assert json.loads(claude.read_text()) == KEPT
    again = run("trust", "--bypass", "--json")
    expected = {
        "directory": None, "trusted_by": None, "changed": False, "file": str(settings), "answered": []
    }  # fmt: skip
    assert json.loads(again.out) == expected


def test_trust_bypass_creates_the_settings_of_claude(run: Sm, claude: Path, project: Path) -> None:
    settings = claude.parent / ".claude" / "settings.json"
    done = run("trust", str(project), "--bypass")
    assert done.out.splitlines()[0] == f"agents of claude may now bypass permissions (in {settings})"
    assert done.out.splitlines()[1].startswith(f"claude trusts {project} ")
    assert json.loads(settings.read_text()) == {"skipDangerousModePermissionPrompt": True}
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.parent.stat().st_mode) == 0o700


def test_trust_bypass_is_refused_to_a_session(run: Sm, claude: Path) -> None:
    run("trust", "--bypass", environ={"SM_SESSION_ID": "0a1b2c3d"}, code=5)
    assert not (claude.parent / ".claude").exists()


def test_trust_needs_a_path_or_bypass(run: Sm, claude: Path) -> None:
    assert "sm trust ." in run("trust", code=2).err


def waiting(number: int, dialog: str, directory: str, **more: Any) -> dict[str, Any]:
    arguments = {"dialog": dialog, "directory": directory}
    questions = [{"question": "Trust it?", "options": []}]
    return request(number, kind="setup", arguments=arguments, questions=questions, **more)


def test_trust_approves_the_dialogs_of_agents_that_wait_in_the_directory(
    run: Sm, peer: Peer, claude: Path, project: Path
) -> None:
    requests = [
        waiting(1, "trust", str(project)),
        waiting(2, "trust", f"{project}/below"),
        waiting(3, "trust", f"{project}-2"),
        waiting(4, "bypass", str(project)),
        waiting(5, "trust", str(project), answer=decision(True)),
        request(6),
        waiting(7, "trust", str(project)),
    ]
    peer.script("GET /v1/requests", answer(requests))
    for number in (1, 2):
        peer.script(f"POST /v1/requests/r{number}/answer", answer(requests[number - 1]))
    peer.script("POST /v1/requests/r7/answer", error("illegal_state", "the dialog is gone", 409))
    done = run("trust", str(project))
    assert [line.rpartition(" goes on ")[2] for line in done.out.splitlines()[1:]] == ["(r1)", "(r2)"]
    assert "still waits (r7): the dialog is gone\n" in done.err
    posted = [received for received in peer.received if received.path.endswith("/answer")]
    assert [received.json for received in posted] == [{"approved": True}] * 3


def test_trust_with_bypass_alone_approves_only_the_warning_about_bypassed_permissions(
    run: Sm, peer: Peer, home: Path, project: Path
) -> None:
    (home / ".claude").mkdir()
    requests = [waiting(1, "trust", str(project)), waiting(2, "bypass", str(project))]
    peer.script("GET /v1/requests", answer(requests))
    peer.script("POST /v1/requests/r2/answer", answer(requests[1]))
    assert json.loads(run("trust", "--bypass", "--json").out)["answered"] == ["r2"]
