"""The limited time of git, and of the comparison of worktrees for a digest."""

from pathlib import Path

import pytest

from sm.capabilities.worktrees.changes import compare_all
from sm.capabilities.worktrees.git.calls import git, time_limit
from sm.core.lines import JsonObject
from sm.errors import ExternalError, IllegalState, NotPermitted

ENTRIES = [{"session_id": f"aaaa000{n}", "label": f"n{n}", "status": "idle"} for n in range(4)]


@pytest.mark.processes
def test_git_is_killed_when_the_time_limit_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = tmp_path / "git"
    hangs.write_text("#!/bin/sh\nexec sleep 1000\n")
    hangs.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for directory in ("objects", "refs"):
        (tmp_path / ".git" / directory).mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    with time_limit(0.01):
        for _ in range(2):
            with pytest.raises(ExternalError, match="git diff did not finish within"):
                git(str(tmp_path), "diff")


def test_no_comparison_begins_after_the_time_for_all_of_them() -> None:
    seconds = iter([0.0, 0.0, 3.0, 7.0, 8.0])
    found = compare_all(ENTRIES, lambda entry: {"label": entry["label"]}, lambda: next(seconds))
    assert found.changes == [{"label": "n0"}, {"label": "n1"}]
    reason = "no comparison begins after 6 s"
    assert [(f["session_id"], f["reason"]) for f in found.not_compared] == [
        ("aaaa0002", reason),
        ("aaaa0003", reason),
    ]


def test_failed_comparison_has_its_reason_and_the_others_continue() -> None:
    def compare(entry: JsonObject) -> JsonObject | None:
        match entry["label"]:
            case "n0":
                raise IllegalState("the worktree is broken")
            case "n1":
                raise NotPermitted("git may run a foreign program in /some/path")
            case "n2":
                return None
            case _:
                return {"label": entry["label"]}

    found = compare_all(ENTRIES, compare)
    assert found.changes == [{"label": "n3"}]
    assert found.not_compared == [
        {"session_id": "aaaa0000", "label": "n0", "reason": "the worktree is broken"},
        {
            "session_id": "aaaa0001",
            "label": "n1",
            "reason": "a sandboxed session may have changed the programs that git runs there",
        },
    ]
