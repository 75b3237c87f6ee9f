"""`sm trust`: one answer is added to what claude keeps, and nothing else changes."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sm.hostos import identify
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
    assert run("trust", str(project)).out == f"claude trusts {project} already\n"
    by_parent = f"claude trusts {project}/sub already, because it trusts {project}\n"
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


def test_config_dir_of_claude_is_honoured(run: Sm, claude: Path, project: Path, home: Path) -> None:
    config = home / "cfg"
    config.mkdir()
    (config / ".claude.json").write_text("{}")
    run("trust", str(project), environ={"CLAUDE_CONFIG_DIR": str(config)})
    assert json.loads((config / ".claude.json").read_text()) == {
        "projects": {str(project): {"hasTrustDialogAccepted": True}}
    }
    assert str(project) not in claude.read_text()


@pytest.mark.parametrize("told", [True, False])
def test_a_running_claude_would_undo_it(run: Sm, claude: Path, project: Path, home: Path, told: bool) -> None:
    running(home / ".claude", os.getpid(), our_start() if told else None)
    before = claude.read_bytes()
    done = run("trust", str(project), code=4)
    assert f"a claude is running (pid {os.getpid()})" in done.err
    assert "--force" in done.err
    assert claude.read_bytes() == before
    assert run("trust", str(project), "--force").code == 0
    assert str(project) in claude.read_text()
    assert "already" in run("trust", str(project)).out, "what is there already needs no force"


def test_state_files_of_claudes_that_are_gone_hold_nothing_up(
    run: Sm, claude: Path, project: Path, home: Path
) -> None:
    running(home / ".claude", os.getpid(), "1")
    (home / ".claude" / "sessions" / "999999999.json").write_text("{}")
    (home / ".claude" / "sessions" / "notes.json").write_text("{}")
    run("trust", str(project))


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
