"""Lets a short process plan, make and remove worktrees, so that git never runs in the daemon."""

import asyncio
import hashlib
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from sm.capabilities.worktrees.git.long_commands import Report
from sm.capabilities.worktrees.making.claims import Claim
from sm.capabilities.worktrees.model import MadeTree, PlannedTree, TreeFiles, TreeWish, planned_from
from sm.capabilities.worktrees.settings import WorktreeSettings
from sm.core.text import folded
from sm.errors import ExternalError, LimitReached, NotPermitted, from_wire
from sm.operations.hints import Argument, Hint, Use
from sm.operations.session_operations import SPAWN
from sm.sessions.writable_paths import StartingSession, WritablePaths

log = logging.getLogger(__name__)

_PLANS = 8
_PLAN_WAITS_S = 10.0
_AT_ONCE = 4
"""Worktrees that are made at the same time. More of them would only wait for the disk."""
_THREADS = 16
_ENDS_WITHIN_S = 60.0
_DIES_WITHIN_S = 5.0
_LOOK_S = 1
_PLAN_SILENT_S = 90
"""Longer than the limit of all commands of git of a plan. The process hangs elsewhere, such as on a dead mount."""
_MAKE_SILENT_S = 900
"""Longer than the limit for a batch of copied files, which is reported before it begins."""
_REMOVE_SILENT_S = 600
"""Longer than the limit of all commands of git of a removal, which reports each file and directory of the top."""
_REVIEWS_UMASK = 0o077
_CALLER = (
    "HOME", "PATH", "USER", "LOGNAME", "LANG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "GH_TOKEN",
    "GITHUB_TOKEN", "GH_CONFIG_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
_OWN = ("HOME", "PATH", "USER", "LOGNAME", "LANG", "XDG_CONFIG_HOME", "TMPDIR", "SSH_AUTH_SOCK")


def git_environment(inherited: Mapping[str, str], caller: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with which git runs: those of the caller's shell, and for want of one those of this process.

    `inherited`: what the session inherits. `caller`: the caller's whole environment, or empty if none came.
    """
    own = {name: os.environ[name] for name in _OWN if name in os.environ}
    given = {name: caller[name] for name in _CALLER if name in caller}
    return {**own, **inherited, **given}


def changed_by_sandbox(directory: str) -> NotPermitted:
    """The error for a repository in which git must not run."""
    return NotPermitted(
        f"a sandboxed session may have changed the programs that git runs in {folded(directory, 200)}",
        Hint("create a worktree yourself, then: ", Use(SPAWN, "AGENT_TYPE", Argument("working_dir", "PATH"))),
    )


def is_readable(descriptor: int, within_s: float) -> bool:
    """Wait until a pipe has output or is at its end. Returns False if it is silent for so long."""
    with selectors.PollSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(within_s))


class TreeMaker:
    """Runs the process, and answers its question for what sandboxed sessions could write."""

    def __init__(
        self,
        settings: Callable[[], WorktreeSettings],
        writable: WritablePaths,
        claims: str,
        now: Callable[[], str],
        is_readable: Callable[[int, float], bool] = is_readable,
    ) -> None:
        """`claims`: the directory of the files that say what was made (making/claims.py).

        `is_readable`: waits for the output of a process.
        """
        self._is_readable = is_readable
        self._settings = settings
        self._claims = claims
        self._now = now
        self._writable = writable
        self._threads = ThreadPoolExecutor(_THREADS, "sm-worktrees")
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._plans = asyncio.Semaphore(_PLANS)

    async def plan(
        self, directory: str, name: str | None, wish: TreeWish, environment: Mapping[str, str], umask: int
    ) -> PlannedTree:
        """Plan a worktree, whose files have this umask. Changes nothing. Raises as `plan_tree`."""
        settings, at = self._settings(), self._now()
        task: dict[str, Any] = {"act": "plan", "directory": directory, "name": name, "wish": asdict(wish)}
        task |= {"place": settings.dir, "branch": settings.branch, "umask": umask}
        try:
            async with asyncio.timeout(_PLAN_WAITS_S):
                await self._plans.acquire()
        except TimeoutError:
            raise LimitReached(f"{_PLANS} other worktrees are being planned", "try again later") from None
        try:
            planned = planned_from(await self._run(task, environment, lambda *_: None, _PLAN_SILENT_S))
        finally:
            self._plans.release()
        return replace(planned, umask=umask, planned_at=at)

    async def make(
        self,
        plan: PlannedTree,
        environment: Mapping[str, str],
        report: Report,
        *,
        again: bool,
        starting: StartingSession | None = None,
    ) -> MadeTree:
        """Make a planned worktree. Raises as `make_tree`. When it is cancelled, nothing is left behind.

        `starting`: its session, if that is sandboxed.

        `again`: an earlier process may have left a part of it.
        """
        settings = self._settings()
        files = TreeFiles(settings.copy, settings.link, settings.submodules)
        task = {**self._task("make", plan), "files": asdict(files), "again": again}
        task |= {"within_s": settings.timeout_s, "copy_max_bytes": settings.copy_max_mb * 1_000_000}
        silent_s = _MAKE_SILENT_S + settings.timeout_s
        async with self._turns:
            return MadeTree(**await self._run(task, environment, report, silent_s, starting))

    async def remove(
        self, plan: PlannedTree, environment: Mapping[str, str], starting: StartingSession | None = None
    ) -> None:
        """Remove what was made of a worktree in which nobody has worked. Raises as `remove_remains`."""
        task = self._task("remove", plan)
        await self._run(task, environment, lambda *_: None, _REMOVE_SILENT_S, starting)

    async def forget_reviews(self, directory: str, session_id: str) -> None:
        """Delete what was reviewed of a session in the repository around a directory. Raises SmError."""
        task = {"act": "forget", "directory": directory, "session_id": session_id, "umask": _REVIEWS_UMASK}
        async with self._turns:
            await self._run(task, git_environment({}, {}), lambda *_: None, _REMOVE_SILENT_S)

    async def hand_over(self, plan: PlannedTree) -> None:
        """Let a worktree that was made be that of its session: nothing of it is removed as a remainder any more."""
        await asyncio.to_thread(Claim(self._claim_of(plan)).forget)

    def _task(self, act: str, plan: PlannedTree) -> dict[str, Any]:
        return {"act": act, "plan": asdict(plan), "umask": plan.umask, "claim": self._claim_of(plan)}

    def _claim_of(self, plan: PlannedTree) -> str:
        return f"{self._claims}/{hashlib.sha256(os.fsencode(plan.path)).hexdigest()[:32]}"

    async def _run(
        self,
        task: Mapping[str, Any],
        environment: Mapping[str, str],
        report: Report,
        silent_s: float,
        starting: StartingSession | None = None,
    ) -> dict[str, Any]:
        """`silent_s`: the process is killed if it says nothing for so long."""
        talk = await self._in_thread(_Talk, task, environment, self._is_readable, silent_s)
        loop = asyncio.get_running_loop()

        def tell(step: str, percent: int | None) -> None:
            loop.call_soon_threadsafe(report, step, percent)

        try:
            heard = await self._in_thread(talk.next, tell)
            if "places" in heard:
                if await self._writable.among(heard["places"], starting):
                    raise changed_by_sandbox(heard["below"])
                await self._in_thread(talk.say, {})
                heard = await self._in_thread(talk.next, tell)
        finally:
            talk.hang_up()
            # Also for a cancelled caller: what was begun is undone before anybody begins again.
            await asyncio.shield(asyncio.ensure_future(self._in_thread(talk.end)))
        if "error" in heard:
            error = heard["error"]
            raise from_wire(error["code"], error["message"], _hint(error["hint"]))
        done: dict[str, Any] = heard["done"]
        return done

    async def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)


def _hint(sent: Sequence[str | Sequence[str]] | None) -> str | None:
    """The hint of the process, with the arguments that it names."""
    if sent is None:
        return None
    return Hint(*(part if isinstance(part, str) else Argument(*part) for part in sent))


class _Talk:
    """The conversation with one process. Its methods block.

    A process that waits for a file system which does not answer cannot even be killed. So no method waits for its end
    or its output without a limit.
    """

    def __init__(
        self,
        task: Mapping[str, Any],
        environment: Mapping[str, str],
        is_readable: Callable[[int, float], bool],
        silent_s: float,
    ) -> None:
        self._is_readable = is_readable
        self._silent_s = silent_s
        self._said = b""
        self._hung = False
        self._reading = threading.Lock()
        self._over = threading.Event()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-m", "sm.capabilities.worktrees.making"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
        self.say(task)

    def say(self, line: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()

    def next(self, report: Report) -> dict[str, Any]:
        """The next question or answer. Reports the steps before it."""
        with self._reading:  # `end` closes the pipe
            while (text := self._line()) is not None:
                line: dict[str, Any] = json.loads(text)
                if "step" not in line:
                    return line
                report(line["step"], line["percent"])
        why = "the process that makes worktrees has ended"
        if self._hung:
            why = f"the process that makes worktrees hung for {self._silent_s:g} s: a file system may not answer"
        return {"error": {"code": ExternalError.code, "message": why, "hint": None}}

    def _line(self) -> bytes | None:
        """The next line, or None if there will be none."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        silent_s = 0
        while b"\n" not in self._said:
            if self._over.is_set():
                return None
            if self._is_readable(descriptor, _LOOK_S):
                silent_s = 0
                if not (piece := os.read(descriptor, 65_536)):
                    return None
                self._said += piece
            elif (silent_s := silent_s + _LOOK_S) >= self._silent_s:
                self._hung = True
                self._kill()
                return None
        line, _, self._said = self._said.partition(b"\n")
        return line

    def hang_up(self) -> None:
        """Tell the process that nobody wants its result, unless it has it. Does not block."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def end(self) -> None:
        """Wait for the end of the process, which undoes what it has begun."""
        assert self._process.stdout is not None
        try:
            self._process.wait(0 if self._hung else _ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._kill()
        self._over.set()
        with self._reading:
            self._process.stdout.close()

    def _kill(self) -> None:
        """Kill the process group. A process that hangs in the kernel dies later."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        try:
            self._process.wait(_DIES_WITHIN_S)
        except subprocess.TimeoutExpired:
            log.warning("a process that makes worktrees does not die: a file system may not answer")
