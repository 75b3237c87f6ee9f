"""The values among which a person chooses for a new session, as the daemon finds them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sm.client.http import Client
from sm.errors import InvalidPath, NotFound
from tests.sim.stage import Instance
from tests.workspaces import create

CONFIG = """
default_trust: direct
limits: {spawn_interval_s: 0}
commands:
  Sh: {command: [sh, -c]}
  Other: {command: [sh, -c]}
claude:
  default_command: /usr/bin/stand-in
  agent_configs:
    Engineer:
      model: opus
      description: writes code
      auto_allow: [Read, "Bash(npm test *)"]
      auto_deny: ["Bash(rm *)"]
"""


@pytest.fixture
def home() -> Iterator[Instance]:
    instance = Instance(config=CONFIG)
    instance.sm("ls")
    yield instance
    instance.end()


def choices(home: Instance, **query: str) -> Any:
    return Client(str(home.socket)).get("/v1/spawn-choices", query)


def repository(path: Path, *, commit: str = "0" * 40) -> Path:
    """Make the files by which a git repository is found. Without a `commit` it has none."""
    own = path / ".git"
    for name in ("objects", "refs/heads"):
        (own / name).mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    if commit:
        (own / "refs" / "heads" / "main").write_text(f"{commit}\n")
    return path


def test_first_run_has_agent_types_and_nothing_that_was_used(home: Instance) -> None:
    found = choices(home)
    assert (found["directory"], found["directories"], found["agent_type"]) == (None, [], None)
    types = {kind["name"]: kind for kind in found["types"]}
    assert types["Engineer"]["auto_allow"] == ["Read", "Bash(npm test *)"]
    assert types["Engineer"]["auto_deny"] == ["Bash(rm *)"]
    assert types["Engineer"]["description"] == "writes code"
    assert (types["Sh"]["permission_mode"], types["Sh"]["estimate"]) == (None, None)
    assert "opus" in found["models"]


def test_directories_are_those_of_the_operators_sessions_and_of_workspaces(home: Instance) -> None:
    shop = create(home, "shop")
    repo = repository(home.work / "app")
    gone = home.work / "gone"
    gone.mkdir()
    for place in (gone, home.work, repo):
        home.spawn("Sh", "exec sleep 1000", cwd=place)
    (parent,) = (s for s in home.json("all") if s["working_dir"] == str(repo))
    (home.work / "inner").mkdir()
    home.spawn("Other", "x", "--parent", parent["session_id"], "--working-dir", str(home.work / "inner"))
    gone.rmdir()
    found = choices(home)
    assert found["agent_type"] == "Sh"
    assert [(d["path"], d["workspace"], d["own_place"]) for d in found["directories"]] == [
        (str(repo), None, "worktree"),
        (str(home.work), None, "copy"),
        (str(shop), "shop", "copy"),
    ]
    assert [d["used_at"] is None for d in found["directories"]] == [False, False, True]
    inside = choices(home, parent=parent["session_id"])
    assert inside["directory"]["path"] == str(repo)


def test_directory_of_the_query_is_found_as_a_spawn_finds_it(home: Instance) -> None:
    shop = create(home, "shop")
    empty = repository(home.work / "empty", commit="")
    missing = str(home.work / "missing")
    for query, path, place, problem in (
        ({"workspace": "shop"}, str(shop), "copy", None),
        ({"cwd": str(empty)}, str(empty), "none", None),
        ({"cwd": str(empty), "working_dir": missing}, missing, None, "does not exist"),
        ({"working_dir": f"{shop}/../empty/"}, os.path.normpath(f"{shop}/../empty"), None, "does not exist"),
    ):
        directory = choices(home, **query)["directory"]
        assert (directory["path"], directory["own_place"], directory["problem"]) == (path, place, problem)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"working_dir": "here"}, InvalidPath),
        ({"workspace": "none"}, NotFound),
        ({"parent": "nobody"}, NotFound),
    ],
)
def test_query_that_names_nothing_is_refused(
    home: Instance, query: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        choices(home, **query)
