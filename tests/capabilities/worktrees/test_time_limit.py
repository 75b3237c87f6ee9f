"""The limited time of git, and of the comparison of worktrees for a digest."""

import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities.worktrees.changes import compare_all
from sm.capabilities.worktrees.git.calls import git, time_limit
from sm.capabilities.worktrees.git.long_commands import Report, git_with_progress
from sm.capabilities.worktrees.making.filling import parallel_checkout
from sm.core.lines import JsonObject
from sm.errors import ExternalError, IllegalState, NotPermitted
from tests.git_repositories import make_app

ENTRIES = [{"session_id": f"aaaa000{n}", "label": f"n{n}", "status": "idle"} for n in range(4)]


def play_git(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let git be this script of the shell, in the repository `directory`."""
    played = directory / "git"
    played.write_text(f"#!/bin/sh\n{script}\n")
    played.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=":")
    for name in ("objects", "refs"):
        (directory / ".git" / name).mkdir(parents=True)
    (directory / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


@pytest.mark.processes
def test_git_is_killed_when_the_time_limit_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_git(tmp_path, monkeypatch, "exec sleep 1000")
    with time_limit(0.01):
        for _ in range(2):
            with pytest.raises(ExternalError, match="git diff did not finish within"):
                git(str(tmp_path), "diff")


@pytest.mark.processes
def test_time_limit_of_a_checkout_grows_with_the_files_that_git_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "printf 'Updating files:  99%% (198000/200000)\\rFiltering content: 100%% (1/1)\\r' >&2; exec sleep 1000"
    play_git(tmp_path, monkeypatch, script)
    steps, clock = list[tuple[str, int | None]](), time.monotonic

    def pass_time(*step: Any) -> None:
        steps.append(step)
        monkeypatch.setattr(time, "monotonic", lambda: clock() + 1000)

    with pytest.raises(ExternalError, match="git checkout did not finish within 320 s"):
        check_out(tmp_path, pass_time)
    assert steps == [("downloading files", 100)]


def check_out(directory: Path, report: Report) -> None:
    git_with_progress(str(directory), "checkout", report=report, cancelled=threading.Event(), within_s=120)


@pytest.mark.processes
@pytest.mark.parametrize("is_long", [True, False])
def test_signal_that_has_killed_git_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """As the kernel kills a process when there is no memory."""
    play_git(tmp_path, monkeypatch, '[ $# -gt 2 ] && case "$*" in *checkout*) kill -9 $$;; esac')
    run = partial(check_out, report=lambda *_: None) if is_long else _git_checkout
    with pytest.raises(ExternalError, match="git checkout was killed by the signal SIGKILL"):
        run(tmp_path)


def _git_checkout(directory: Path) -> None:
    git(str(directory), "checkout")


@pytest.mark.processes
def test_files_are_written_on_several_processors_unless_the_user_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    repository = str(make_app(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert parallel_checkout(repository)["GIT_CONFIG_VALUE_0"] == "4"
    (tmp_path / ".gitconfig").write_text("[checkout]\n\tworkers = 1\n")
    assert parallel_checkout(repository) == {}


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
