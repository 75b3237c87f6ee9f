"""Runs one real claude for a scene, as the product starts it, and collects what the product would read of it."""

import contextlib
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from sm.config import AgentConfig
from sm.core.models import SpawnRequest
from sm.core.requests import Answer, Request
from sm.core.states import RequestState
from sm.core.text import message_header
from sm.providers.base import PlanContext, ProgramFacts
from sm.providers.claude.check.play import QUIET, locations, seed
from sm.providers.claude.check.scripted_api import ModelRequest, ScriptedApi
from sm.providers.claude.plan import ClaudeProvider
from sm.providers.claude.section import ClaudeSection
from tests import samples
from tests.record.placeholders import ROOT_PREFIX, steady_rows

T = TypeVar("T")

WIDE, NARROW = (120, 40), (80, 24)
_QUIET_S = 1.0
"""The screen counts as drawn, and the files as written, when they have not changed for this time."""
_LOST_S = 3.0
"""claude takes an Enter that follows a paste too closely for a part of it, and does not read keys while it draws."""
_PAUSE_S = 0.2
_LIMIT_S = 120.0
_GRACE_S = 10.0
"""For claude to end after the end of its terminal."""
_TMUX = """\
set -g remain-on-exit on
set -g history-limit 5000
"""
_HOOK = """\
#!/bin/sh
# Stands in for `sm hook claude`: keeps the event, and prints the answer to a dialog once there is one.
file={hooks}/$(date +%s%N)-$$
cat > "$file.part"
mv "$file.part" "$file.json"
case $(head -c 4000 "$file.json") in *'"hook_event_name":"PermissionRequest"'*) cat {answer} ;; esac
"""


class SceneFailed(Exception):
    """The program did not do what the scene needs. The text is for people."""


@dataclass(frozen=True, slots=True)
class Program:
    """A claude to record."""

    path: str
    version: str
    help: str

    @classmethod
    def at(cls, path: str) -> Self:
        """Ask the program for its version and its options. Raises SceneFailed."""
        said = []
        for option in ("--version", "--help"):
            ended = subprocess.run([path, option], capture_output=True, text=True, check=False)
            if ended.returncode != 0:
                raise SceneFailed(f"{path} {option} exits with {ended.returncode}: {ended.stderr[:300]}")
            said.append(ended.stdout)
        return cls(path, said[0].split(" ")[0], said[1])


@dataclass(slots=True)
class View:
    """The terminal and the state file of a claude at one moment."""

    name: str
    size: str
    title: str
    state: Mapping[str, Any] | None
    rows: Sequence[str]


@dataclass(slots=True)
class ClaudeStage:
    """One scene: a home, a terminal and an API of its own. `with ClaudeStage(program) as stage`."""

    program: Program
    root: Path = field(default_factory=lambda: Path(ROOT_PREFIX + secrets.token_hex(4)))
    views: list[View] = field(default_factory=list)
    api: ScriptedApi = field(default_factory=ScriptedApi)
    more: Mapping[str, str] = field(default_factory=dict)
    """Further variables of the agent."""
    without: tuple[str, ...] = ()
    """Variables that the agent does not have."""
    said: list[str] = field(default_factory=list)
    """The prompt and the messages so far."""
    pid: int = 0
    conversation: str = ""
    _flags: tuple[str, ...] = ()
    _answered: int = 0

    def __enter__(self) -> Self:
        self.root.mkdir(mode=0o700)
        (self.root / "tmux.conf").write_text(_TMUX)
        self.api.__enter__()
        self.prepare()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tmux("kill-server", check=False)
        deadline = time.monotonic() + _GRACE_S
        while self.pid and os.path.exists(f"/proc/{self.pid}"):
            if time.monotonic() > deadline:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.05)
        with contextlib.suppress(OSError):
            # Ends the stand-ins for hooks that still wait for an answer: they read the end of the file.
            os.close(os.open(self.answer_file, os.O_RDWR))
        self.api.__exit__(kind, error, trace)
        shutil.rmtree(self.root, ignore_errors=True)

    # Before the start

    def prepare(self, **answers: bool) -> None:
        """Make the home of a user who has answered claude's first questions, except those that are False."""
        shutil.rmtree(self.root / ".claude", ignore_errors=True)
        config = seed(self.root, **answers)
        # A random tip appears below the spinner, after a random time.
        (config / "settings.json").write_text('{"spinnerTipsEnabled": false}')
        for name in ("app", "bin", "hooks", "tmp"):
            (self.root / name).mkdir(exist_ok=True)
        if not self.answer_file.exists():
            os.mkfifo(self.answer_file)
        stand_in = self.root / "bin" / "sm"
        stand_in.write_text(_HOOK.format(hooks=self.root / "hooks", answer=self.answer_file))
        stand_in.chmod(stat.S_IRWXU)

    @property
    def answer_file(self) -> Path:
        return self.root / "answer"

    @property
    def project(self) -> Path:
        return self.root / "app"

    @property
    def environment(self) -> dict[str, str]:
        given = {
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "EDITOR": "vim",  # claude names it in a hint
            "TMPDIR": str(self.root / "tmp"),
            "IS_SANDBOX": "1",  # for a recording as root in the mode without questions
            **QUIET,
            **locations(self.root, self.api.url),
            **self.more,
        }
        return {name: value for name, value in given.items() if name not in self.without}

    # Start and end

    def start(self, prompt: str = "", *arguments: str, size: tuple[int, int] = WIDE) -> None:
        """Start claude as `sm spawn` does, without waiting for anything. `arguments`: those of its agent type."""
        request = SpawnRequest("Recorded", working_dir=str(self.project), prompt=prompt or None)
        plan = self._provider.plan(request, self._context(arguments))
        self.conversation, self._flags = plan.conversation or "", plan.flags
        self.said += [prompt] if prompt else []
        self._open(plan.argv, plan.environment, size)

    def resume(self, *, fork: bool = False) -> None:
        """Start claude with the conversation of the one before, or with a copy of it."""
        context = self._context(())
        if fork:
            context = replace(context, session=replace(context.session, conversation=None))
        plan = self._provider.resume(context, self._flags, self.conversation, fork=fork)
        self.conversation = plan.conversation or self.conversation
        self._open(plan.argv, plan.environment, WIDE)

    @property
    def _provider(self) -> ClaudeProvider:
        return ClaudeProvider(
            ClaudeSection(default_command=(self.program.path,)), ("Recorded",), is_root=False
        )

    def _context(self, arguments: Sequence[str]) -> PlanContext:
        session = replace(
            samples.session("aaaa1111"), working_dir=str(self.project), name="recorded", provider="claude"
        )
        return PlanContext(
            session,
            str(self.root / "bin" / "sm"),
            self.environment,
            agent=AgentConfig(args=tuple(arguments)),
            program=ProgramFacts(self.program.version, self.program.help),
        )

    def _open(self, argv: Sequence[str], environment: Mapping[str, str], size: tuple[int, int]) -> None:
        width, height = size
        given = {**environment, **self.environment}
        assignments = [f"{name}={value}" for name, value in given.items()]
        # In a file: tmux takes no command line of this length.
        launcher = self.root / "bin" / "start"
        launcher.write_text(f"exec env -i {shlex.join([*assignments, *argv])}\n")
        if self.pid:
            self._tmux("resize-window", "-t", "scene", "-x", str(width), "-y", str(height))
            self._tmux("respawn-pane", "-k", "-t", "scene", "--", "sh", str(launcher))
        else:
            options = ("-d", "-s", "scene", "-x", str(width), "-y", str(height), "-c", str(self.project))
            self._tmux("-f", str(self.root / "tmux.conf"), "new-session", *options, "--", "sh", str(launcher))
        self.pid = int(self._tmux("display-message", "-p", "-t", "scene", "#{pane_pid}"))

    def begin(self, prompt: str = "", *arguments: str) -> None:
        """Start claude and wait until it is idle."""
        self.start(prompt, *arguments)
        self.idle()

    def kill(self) -> None:
        """End claude with SIGTERM and wait for its end."""
        os.kill(self.pid, signal.SIGTERM)
        self.ended()

    def ended(self) -> None:
        self.until(self._has_ended, "it has ended")

    def _has_ended(self) -> bool:
        return self._tmux("display-message", "-p", "-t", "scene", "#{pane_dead}") == "1"

    # Input

    def keys(self, *keys: str) -> None:
        """Press keys (tmux(1), send-keys), each as its own press."""
        for key in keys:
            self._tmux("send-keys", "-t", "scene", key)
            self.settled()

    def press(self, *keys: str) -> None:
        """Press keys at once, such as Escape twice."""
        for key in keys:
            self._tmux("send-keys", "-t", "scene", key)

    def close_menu(self) -> None:
        """Press Escape until no menu is open. At an empty box the key would do something else."""
        while (self.state() or {}).get("status") == "waiting":
            self.keys("Escape")

    def paste(self, text: str) -> None:
        self._tmux("load-buffer", "-b", "pasted", "-", input=text)
        self._tmux("paste-buffer", "-d", "-p", "-r", "-b", "pasted", "-t", "scene")

    def type(self, text: str) -> None:
        """Put a text into the box as the product does: in pieces, each of which the box shows."""
        for group in self._provider.box_reader.paste_groups(text):
            for piece in group:
                self.paste(piece)
            self.settled()

    def keystrokes(self, text: str) -> None:
        """Type a text key by key."""
        self._tmux("send-keys", "-l", "-t", "scene", text)
        self.settled()

    def enter(self) -> None:
        """Press Enter, again if nothing comes of it."""
        before, pressed = self._situation(), -_LOST_S

        def look() -> bool:
            nonlocal pressed
            if self._situation() != before:
                return True
            if time.monotonic() > pressed + _LOST_S:
                pressed = time.monotonic()
                self._tmux("send-keys", "-t", "scene", "Enter")
            return False

        self.until(look, "Enter has an effect")

    def say(self, text: str) -> None:
        """Type a message and send it with Enter."""
        self.type(self.message_text(text))
        self.enter()

    def message_text(self, text: str) -> str:
        """A text as sm sends it, with its header."""
        self.said.append(f"{message_header('operator', len(self.said) + 1)}\n{text}")
        return self.said[-1]

    def message(self, text: str) -> None:
        """Say something to an idle claude, and wait until its turn has ended."""
        marker = text.split(" ", 1)[0]
        self.say(text)
        self.turn(marker)
        self.idle()

    # Dialogs

    def dialog(self) -> Mapping[str, Any]:
        """Wait for the next hook of a dialog, and return its event."""

        def look() -> Mapping[str, Any] | None:
            asked = [hook for hook in self.hooks() if hook["hook_event_name"] == "PermissionRequest"]
            return asked[self._answered] if len(asked) > self._answered else None

        found = self.until(look, "a dialog reports its PermissionRequest")
        self.settled()
        return found

    def answer(
        self, *, approved: bool = True, answers: Sequence[str] = (), message: str | None = None
    ) -> None:
        """Answer the next dialog by its hook, as `sm approve`, `sm deny` and `sm answer` do."""
        readers = self._provider.readers
        assert readers.hooks is not None
        dialog = readers.hooks.dialog(self.dialog(), cut=False)
        assert dialog is not None
        request = Request(
            id=1,
            session_id="aaaa1111",
            kind=dialog.kind,
            state=RequestState.ANSWERED,
            created_at=samples.AT,
            state_at=samples.AT,
            tool=dialog.tool,
            arguments=dialog.arguments,
            questions=dialog.questions,
            answer=Answer(approved, tuple(answers), message),
        )
        decided = readers.hooks.decision(request, "operator")
        assert decided is not None
        with open(self.answer_file, "w", encoding="utf-8") as file:
            file.write(decided)
        self._answered += 1

    # Waits

    def until(self, look: Callable[[], T | Literal[False] | None], what: str) -> T:
        """Call `look` until its result is true. Raises SceneFailed with the screen after two minutes."""
        deadline = time.monotonic() + _LIMIT_S
        while not (found := look()):
            if time.monotonic() > deadline:
                raise SceneFailed(f"{what}: not within {_LIMIT_S:.0f} s\n" + "\n".join(self.rows()))
            time.sleep(_PAUSE_S)
        return found

    def turn(self, words: str, results: int = 0) -> ModelRequest:
        """Wait for a request to the model whose newest prompt has these words, with so many results of tools."""
        return self.until(
            lambda: next((turn for turn in self.api.turns(words) if len(turn.results) >= results), None),
            f"the model is asked {words!r} with {results} results",
        )

    def hold(self, name: str) -> None:
        self.until(
            lambda: next((True for request in list(self.api.requests) if request.held == name), None),
            f"a turn reaches {name}",
        )
        self.settled()

    def release(self, name: str) -> None:
        self.api.release(name)

    def status(self, *statuses: str) -> None:
        """Wait until the state file has one of these statuses."""
        self.until(
            lambda: (self.state() or {}).get("status") in statuses, f"the state is {' or '.join(statuses)}"
        )

    def idle(self) -> None:
        self.status("idle", "shell")
        self.settled()

    def shown(self, text: str) -> None:
        """Wait until the screen has this text."""
        self.until(lambda: any(text in row for row in self.rows()), f"the screen shows {text!r}")
        self.settled()

    def hooked(self, event: str, count: int = 1) -> None:
        """Wait until so many hooks of this event have come."""
        self.until(
            lambda: sum(hook["hook_event_name"] == event for hook in self.hooks()) >= count,
            f"hook {event} comes {count} times",
        )

    def settled(self) -> None:
        """Wait until neither the screen, but for what moves by itself, nor the files change any more."""
        before, since = self._situation(), time.monotonic()

        def look() -> bool:
            nonlocal before, since
            if (now := self._situation()) != before:
                before, since = now, time.monotonic()
            return time.monotonic() > since + _QUIET_S

        self.until(look, "the screen and the files stop changing")

    def _situation(self) -> object:
        return steady_rows(self.rows()), self.state(), len(os.listdir(self.root / "hooks")), self._sizes()

    def _sizes(self) -> list[int]:
        return [path.stat().st_size for path in sorted((self.root / ".claude" / "projects").rglob("*.jsonl"))]

    # What is recorded

    def look(self, name: str, *sizes: tuple[int, int]) -> None:
        """Record the terminal and the state file, at these sizes of the window, or as it is."""
        self.settled()
        for width, height in sizes or (WIDE,):
            if sizes:
                self._tmux("resize-window", "-t", "scene", "-x", str(width), "-y", str(height))
                self.settled()
            self.view(name, f"{width}x{height}")
        if sizes and sizes[-1] != WIDE:
            self._tmux("resize-window", "-t", "scene", "-x", str(WIDE[0]), "-y", str(WIDE[1]))
            self.settled()

    def view(self, name: str, size: str = f"{WIDE[0]}x{WIDE[1]}") -> None:
        """Record the terminal and the state file as they are at this moment."""
        title = self._tmux("display-message", "-p", "-t", "scene", "#{pane_title}")
        title = "" if title == socket.gethostname() else title  # claude has not set it
        rows = self.rows()
        if self._has_ended():  # tmux tells it on the screen only sometimes, with an exit code or without
            kept = [row for row in self.rows("-S", "-100") if not row.startswith("Pane is dead")]
            rows = [*"\n".join(kept).strip("\n").split("\n"), "Pane is dead"]
        self.views.append(View(name, size, title, self.state(), rows))

    def rows(self, *options: str) -> list[str]:
        return self._tmux("capture-pane", "-p", "-t", "scene", *options).rstrip("\n").split("\n")

    def state(self) -> dict[str, Any] | None:
        try:
            text = (self.root / ".claude" / "sessions" / f"{self.pid}.json").read_text(encoding="utf-8")
            found: dict[str, Any] = json.loads(text)
        except (FileNotFoundError, ValueError):  # not yet there, ended, or about to be written
            return None
        return found

    def hooks(self) -> list[dict[str, Any]]:
        """The events so far, in their order."""
        files = sorted((self.root / "hooks").glob("*.json"))
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def transcripts(self) -> list[Path]:
        """The files of all conversations in the order in which hooks name them, those of sub-agents last."""
        named = json.dumps(self.hooks())

        def order(path: Path) -> tuple[bool, int, str]:
            at = named.find(path.stem.removeprefix("agent-"))
            return "subagents" in path.parts, at if at >= 0 else len(named), path.name

        return sorted((self.root / ".claude" / "projects").rglob("*.jsonl"), key=order)

    def _tmux(self, *arguments: str, input: str | None = None, check: bool = True) -> str:
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8", "TZ": "UTC"}
        ended = subprocess.run(
            ["tmux", "-u", "-S", str(self.root / "tmux"), *arguments],
            input=input,
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        if check and ended.returncode != 0:
            raise SceneFailed(f"tmux {arguments[0]}: {ended.stderr.strip()}")
        return ended.stdout.rstrip("\n") if arguments[0] != "capture-pane" else ended.stdout
