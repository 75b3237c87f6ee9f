"""The process that plans and makes worktrees on behalf of the daemon: `python -m sm.capabilities.worktrees.making`.

Its stdin begins with one line of JSON, the task. It answers in lines of JSON on stdout: `places`, once, for which
stdin must get a line if no sandboxed session could write there; `step` and `percent`; at the end `done` or `error`. If
stdin ends before, nobody wants the result any more, and nothing of it stays.
"""

import json
import os
import signal
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from sm.capabilities.worktrees.git.calls import places_used, repository_around, time_limit
from sm.capabilities.worktrees.git.long_commands import Cancelled
from sm.capabilities.worktrees.git.review_refs import forget_trees
from sm.capabilities.worktrees.git.scratch_worktrees import remove_left_directories
from sm.capabilities.worktrees.making.claims import Claim
from sm.capabilities.worktrees.making.copy_planning import plan_copy
from sm.capabilities.worktrees.making.copying import make_copy, remove_copy_remains
from sm.capabilities.worktrees.making.filling import make_tree
from sm.capabilities.worktrees.making.planning import plan_tree, remote_places
from sm.capabilities.worktrees.making.remains import remove_remains
from sm.capabilities.worktrees.model import PlannedTree, TreeFiles, TreeWish, planned_from
from sm.core.text import folded
from sm.errors import ExternalError, IllegalState, SmError
from sm.operations.hints import Argument, Use, parts_of

_cancelled = threading.Event()
_PLAN_S = 60.0
"""For all commands of git of a plan together."""
_REMOVAL_S = 300.0
"""For all commands of git of a removal together."""
_REMOVAL_WAITS_S = 10.0
"""For an earlier process. The kill of a session waits for it."""


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: _cancelled.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    task: dict[str, Any] = json.loads(_heard())
    os.umask(task["umask"])
    try:
        _say({"done": _carry_out(task)})
    except Cancelled:
        _say({"error": {"code": IllegalState.code, "message": "cancelled", "hint": None}})
    except SmError as error:
        hint = None if error.hint is None else [*map(_sent, parts_of(error.hint))]
        _say({"error": {"code": error.code, "message": error.message, "hint": hint}})
    except OSError as error:  # such as a full disk for the claim
        message = f"{folded(str(error.filename or 'git'), 4096)}: {error.strerror}"
        _say({"error": {"code": ExternalError.code, "message": message, "hint": None}})


def _sent(part: str | Use | Argument) -> str | list[str]:
    """A part of a hint: each door words the arguments that it names."""
    return [part.name, part.value] if isinstance(part, Argument) else str(part)


def _carry_out(task: Mapping[str, Any]) -> Mapping[str, Any]:
    if task["act"] == "plan":
        wish = TreeWish(**task["wish"])
        with time_limit(_PLAN_S):
            plan_wish = plan_copy if wish.copy else plan_tree
            planned = plan_wish(task["directory"], task["name"], wish, task["place"], task["branch"], _allow)
        return asdict(planned)
    if task["act"] == "forget":
        _allow({task["directory"]}, task["directory"])
        with time_limit(_PLAN_S):
            forget_trees(task["directory"], task["session_id"])
        return {}
    plan = planned_from(task["plan"])
    is_removal = task["act"] == "remove"
    # A removal needs neither the remote nor the worktree from which it was made, which may be gone.
    is_local = is_removal or plan.fetched is None
    places = () if is_local else remote_places(repository_around(plan.source), plan.fetched)
    _allow({plan.path, plan.repository, plan.common, plan.source, *places}, plan.repository)
    threading.Thread(target=_wait_for_end, daemon=True).start()
    claim = Claim(task["claim"])
    remove_left_directories()
    with claim.held(_cancelled, _REMOVAL_WAITS_S if is_removal else None):
        if is_removal:
            with time_limit(_REMOVAL_S):
                _remove(plan, claim)
            return {}
        return _make(task, plan, claim)


def _make(task: Mapping[str, Any], plan: PlannedTree, claim: Claim) -> Mapping[str, Any]:
    if task["again"]:  # a process was killed with the daemon while it made this worktree, or the daemon alone
        if (result := claim.result()) is not None:
            made: dict[str, Any] = json.loads(result)
            return made
        _remove(plan, claim)
    claim.clear()  # of an earlier worktree at this place, if the daemon ended before it was handed over
    if plan.is_copy:
        tree = make_copy(plan, task["copy_max_bytes"], claim, task["within_s"], _report, _cancelled)
    else:
        files = TreeFiles(**task["files"])
        tree = make_tree(plan, files, claim, task["within_s"], _report, _cancelled)
    made = asdict(tree)
    claim.finish(json.dumps(made))
    return made


def _remove(plan: PlannedTree, claim: Claim) -> None:
    if plan.is_copy:
        remove_copy_remains(plan, claim, _report)
    else:
        remove_remains(plan, claim, report=_report)


def _allow(paths: Iterable[str], below: str) -> None:
    _say({"places": list(places_used(paths)), "below": below})
    if not _heard():
        raise Cancelled


def _wait_for_end() -> None:
    while os.read(0, 1024):
        pass
    _cancelled.set()


def _heard() -> bytes:
    """The next line of stdin, empty at its end. Not by `sys.stdin`, whose lock another thread holds at the exit."""
    found = b""
    while not found.endswith(b"\n") and (piece := os.read(0, 65_536)):
        found += piece
    return found


def _report(step: str, percent: int | None) -> None:
    _say({"step": step, "percent": percent})


def _say(line: Mapping[str, Any]) -> None:
    text = json.dumps(line, ensure_ascii=True).encode() + b"\n"
    try:
        os.write(1, text)  # whole lines, also from several threads
    except BrokenPipeError:
        _cancelled.set()


if __name__ == "__main__":
    main()
