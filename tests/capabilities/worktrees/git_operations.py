"""Runs everything that `sm` does with git, on the work of a session.

`python -m tests.capabilities.worktrees.git_operations DIR [UID]` is a program of its own, so that a test can run it as
another user. The daemon is a fake that knows one direct session and says that no sandboxed session could write
anything: the attacks must fail without its help. Prints one JSON line for each operation, with its error or null.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from sm.capabilities.worktrees.git.review_refs import forget_trees
from sm.capabilities.worktrees.making.claims import Claim
from sm.capabilities.worktrees.making.filling import make_tree
from sm.capabilities.worktrees.making.planning import plan_tree
from sm.capabilities.worktrees.making.remains import remove_remains
from sm.capabilities.worktrees.merging import MergeOptions, Way, merge
from sm.capabilities.worktrees.model import TreeFiles, TreeWish
from sm.capabilities.worktrees.reviewed_trees import (
    difference,
    head_of,
    keep_tree,
    present_tree,
)
from sm.capabilities.worktrees.rules import PLACE
from sm.capabilities.worktrees.trees import clean
from sm.capabilities.worktrees.unsaved_work import unsaved_work_of
from sm.capabilities.worktrees.work import work_of
from sm.errors import SmError


class FakeDaemon:
    def __init__(self, session: Mapping[str, Any]) -> None:
        self._session = session

    def get(self, path: str, query: object = None) -> Any:
        if path == "/v1/sessions":
            return [self._session]
        return [] if path in ("/v1/workspaces", "/v1/worktrees") else self._session

    def post(self, path: str, body: object = None) -> Any:
        assert path == "/v1/sandbox/writable"
        return {"writable": []}


def restore(files: Mapping[str, str | None]) -> None:
    """Give files their content of before, so that a merge is not refused for them, or remove the file if None."""
    for path, content in files.items():
        if content is None:
            os.unlink(path)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)


def main(directory: str, uid: int | None = None) -> None:
    if uid is not None:  # now, because that user may not be able to read the modules
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    with open(f"{directory}/session.json", encoding="utf-8") as file:
        given = json.load(file)
    session: dict[str, Any] = {
        "session_id": "aaaa1111",
        "label": "engineer-x",
        "friendly_name": "engineer-x",
        "status": "idle",
        "created_at": "2026-01-01T00:00:00Z",
        "effective_mode": "direct",
        "workspace": None,
        **given["session"],
    }
    client: Any = FakeDaemon(session)
    os.environ.update(given["environment"])
    os.chdir(given["cwd"])
    removed = {
        **session,
        "used": False,
        "sandboxed": False,
        "repository": None,
        "keeps_branch": False,
        "git_directory": None,
        "start": None,
    }

    def spawn() -> None:
        plan = plan_tree(given["repository"], "other", TreeWish(), PLACE, "sm/{name}", lambda *_: None)
        never, files = threading.Event(), TreeFiles(("*.env",), ("cache",))
        claim = Claim(f"{directory}/claim")
        make_tree(plan, files, claim, 60, lambda *_: None, never)
        remove_remains(plan, claim)

    def review() -> None:
        work = work_of(client, "x")
        tree = present_tree(work)
        assert difference(work, work.base, tree)
        assert head_of(work)
        keep_tree(work, tree)

    def forget_review() -> None:
        forget_trees(work_of(client, "x").top, session["session_id"])

    operations: dict[str, Callable[[], object]] = {
        "diff": lambda: work_of(client, "x").show(),
        "diff --stat": lambda: work_of(client, "x").show("--stat"),
        "diff --json": lambda: work_of(client, "x").files(),
        "digest": lambda: work_of(client, "x").commits(),
        "review": review,
        "rm after a review": forget_review,
        "spawn --worktree": spawn,
        "clean the worktree": lambda: restore(given["restored"]),
        "merge": lambda: merge(work_of(client, "x"), MergeOptions()),
        "merge --squash": lambda: merge(work_of(client, "x"), MergeOptions(Way.SQUASH)),
    }
    if session["worktree"]:
        operations["rm"] = lambda: unsaved_work_of(client, session)
        operations["rm, after it has looked"] = lambda: clean(client, removed, lambda: removed)
        operations["rm --discard"] = lambda: clean(client, removed, lambda: removed, ())
    for name, operation in operations.items():
        error = None
        try:
            operation()
        except SmError as raised:
            error = raised.message
        sys.stderr.write(json.dumps({"operation": name, "error": error}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
