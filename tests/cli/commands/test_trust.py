"""`sm trust`: one answer is added to what claude keeps, and nothing else changes."""

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any, Self

import pytest

from sm.linux.processes import identify
from tests.cli.conftest import Sm

KEPT = {
    "numStartups": 3,
    "hasCompletedOnboarding": True,
    "projects": {"/srv/other": {"allowedTools": [], "history": [{"display": "fünf \U0001f600"}]}},
    "empty": {},
    "last": "é",
}


@pytest.fixture
def claude(home: Path) -> Path:
    """The file of a claude that has been used."""
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
    said: dict[str, Any] = {"pid": pid, "status": "idle"}
    (config / "sessions" / f"{pid}.json").write_text(
        json.dumps(said if started is None else {**said, "procStart": started})
    )


def our_start() -> str:
    process = identify(os.getpid())
    assert process is not None
    return process.started.rpartition("/")[2]


def test_directory_is_added_and_all_else_stays_as_it_was(run: Sm, claude: Path, project: Path) -> None:
    done = run("trust", str(project))
    assert done.out == f"claude trusts {project} and all below it (written to {claude})\n"
    projects = {**KEPT["projects"], str(project): {"hasTrustDialogAccepted": True}}  # type: ignore[dict-item]
    assert claude.read_text() == json.dumps({**KEPT, "projects": projects}, indent=2, ensure_ascii=False)
    assert stat.S_IMODE(claude.stat().st_mode) == 0o600
    assert sorted(path.name for path in claude.parent.iterdir()) == [".claude.json", "proj"]


def test_entry_that_is_there_keeps_its_keys_and_its_place(run: Sm, claude: Path, project: Path) -> None:
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
def test_mode_of_the_file_is_kept(run: Sm, claude: Path, project: Path, mode: int) -> None:
    claude.chmod(mode)
    run("trust", str(project))
    assert stat.S_IMODE(claude.stat().st_mode) == mode


def test_directory_that_is_trusted_already_changes_nothing(run: Sm, claude: Path, project: Path) -> None:
    (project / "sub").mkdir()
    run("trust", str(project))
    before = (claude.read_bytes(), claude.stat().st_mtime_ns, claude.stat().st_ino)
    assert run("trust", str(project)).out == f"claude trusts {project} already (in {claude})\n"
    by_parent = f"claude trusts {project}/sub already, because it trusts {project} (in {claude})\n"
    assert run("trust", str(project / "sub")).out == by_parent
    assert before == (claude.read_bytes(), claude.stat().st_mtime_ns, claude.stat().st_ino)


def test_json_says_what_became_of_it(run: Sm, claude: Path, project: Path) -> None:
    (project / "sub").mkdir()
    first = json.loads(run("trust", str(project), "--json").out)
    assert first == {
        "directory": str(project), "trusted_by": str(project), "changed": True, "file": str(claude)
    }  # fmt: skip
    second = json.loads(run("trust", str(project / "sub"), "--json").out)
    assert second == first | {"directory": str(project / "sub"), "changed": False}


def test_links_are_followed_and_stay(run: Sm, claude: Path, project: Path, home: Path) -> None:
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
def test_it_is_written_where_the_claudes_of_agents_look(
    run: Sm, claude: Path, project: Path, home: Path, configured: str, inherited: bool, where: str
) -> None:
    (home / "config.yaml").write_text(configured.replace("HOME/", f"{home}/"))
    for each in ("cfg", "agents"):
        (home / each).mkdir()
        (home / each / ".claude.json").write_text("{}")
    environ = {"CLAUDE_CONFIG_DIR": str(home / "cfg")} if inherited else {}
    file = home / where / ".claude.json"
    assert f"(written to {file})" in run("trust", str(project), environ=environ).out
    for each in (".", "cfg", "agents"):
        written = str(project) in (home / each / ".claude.json").read_text()
        assert written is (each == where), each
    assert f"already (in {file})" in run("trust", str(project), environ=environ).out


def test_a_configuration_that_cannot_be_read_is_told_before_anything_is_written(
    run: Sm, claude: Path, project: Path, home: Path
) -> None:
    (home / "config.yaml").write_text("nonsense: 1\n")
    assert "nonsense" in run("trust", str(project), code=2).err
    assert str(project) not in claude.read_text()


class Undoing:
    """A claude that writes its own copy over the file when somebody else has written it, so many times."""

    def __init__(self, path: Path, times: int) -> None:
        self._path = path
        self._own = path.read_bytes()
        self._times = times
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.done = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.01):
            if self.done < self._times and self._path.read_bytes() != self._own:
                new = self._path.with_name("copy")
                new.write_bytes(self._own)
                new.rename(self._path)
                self.done += 1


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("times", [0, 1, 2])
def test_what_a_running_claude_undoes_is_written_again(
    run: Sm, claude: Path, project: Path, home: Path, told: bool, times: int
) -> None:
    running(home / ".claude", os.getpid(), our_start() if told else None)
    with Undoing(claude, times) as undoing:
        done = run("trust", str(project))
    assert undoing.done == times
    assert f"claudes are running (pid {os.getpid()}), and the entry stands" in done.out
    assert json.loads(claude.read_text())["projects"][str(project)] == {"hasTrustDialogAccepted": True}
    assert "already" in run("trust", str(project)).out


def test_what_running_claudes_undo_all_the_time_is_refused(
    run: Sm, claude: Path, project: Path, home: Path
) -> None:
    running(home / ".claude", os.getpid(), our_start())
    before = claude.read_bytes()
    with Undoing(claude, 10_000):
        done = run("trust", str(project), code=4)
    assert f"the claudes that run (pid {os.getpid()}) undo it in {claude}" in done.err
    assert "hint: end them first" in done.err
    assert claude.read_bytes() == before
    assert sorted(path.name for path in home.iterdir() if path.is_file()) == [".claude.json"]


def test_state_files_of_claudes_that_are_gone_hold_nothing_up(
    run: Sm, claude: Path, project: Path, home: Path
) -> None:
    running(home / ".claude", os.getpid(), "1")
    (home / ".claude" / "sessions" / "999999999.json").write_text("{}")
    (home / ".claude" / "sessions" / "notes.json").write_text("{}")
    assert "running" not in run("trust", str(project)).out


def test_session_may_not_trust(run: Sm, claude: Path, project: Path, state: Path) -> None:
    done = run("trust", str(project), code=5, environ=run.as_session(state))
    assert "only the operator" in done.err
    assert str(project) not in claude.read_text()


def test_nothing_is_made_where_claude_has_never_been(run: Sm, project: Path, home: Path) -> None:
    done = run("trust", str(project), code=4)
    assert "has never been started" in done.err
    assert "hint: start claude once, in a terminal" in done.err
    assert [path.name for path in home.iterdir()] == ["proj"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[1]", "holds no JSON object"),
        ('{"projects": []}', "has an unknown form"),
        ('{"projects": {"DIR": 1}}', "has an unknown form"),
    ],
)
def test_file_that_is_not_understood_stays_as_it_is(
    run: Sm, claude: Path, project: Path, content: str, said: str
) -> None:
    claude.write_text(content.replace("DIR", str(project)))
    before = claude.read_bytes()
    assert said in run("trust", str(project), code=9).err
    assert claude.read_bytes() == before


@pytest.mark.parametrize(("name", "said"), [("none", "does not exist"), ("file", "is not a directory")])
def test_only_a_directory_can_be_trusted(run: Sm, claude: Path, home: Path, name: str, said: str) -> None:
    (home / "file").touch()
    assert said in run("trust", str(home / name), code=2).err
