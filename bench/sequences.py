"""The sequences of `python -m bench states`: what a script does to the real Claude Code, and the true states of it.

The script knows the true state from its own actions: it entered a prompt, the API sent the whole answer, it pressed a
key. Between a command of sm and the act of claude that follows it, the true state is unknown.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sm.client.http import Client, new_key
from sm.errors import SmError
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import Request, ScriptedApi, tool
from tests.waits import failure_checks, repeat_until

AROUND_S = 1.0
"""A busy machine and the hooks of claude delay what claude does after its last answer."""
EVERY_S = 0.1
KEEP_STATE_S = 3.5
"""Time that each state is kept, so that most of its samples are not near a change."""
UNKNOWN = ""
_QUIET_S = 3.0
"""claude may need so long to begin a turn with the result of a sub-agent."""
STEP_S = 90.0
"""How long one act of claude may take before its sequence counts as not played."""
_ENDED = frozenset({"completed", "error", "killed", "abandoned"})


@dataclass
class Truth:
    """The true states of one session with their times, and the sampled states."""

    changes: list[tuple[float, str]] = field(default_factory=list)
    samples: list[tuple[float, str, str]] = field(default_factory=list)
    steps: list[tuple[float, str]] = field(default_factory=list)
    """The start of each sequence."""

    def now(self, state: str) -> None:
        if not self.changes or self.changes[-1][1] != state:
            self.changes.append((time.time(), state))

    def state_at(self, time_s: float, around_s: float = AROUND_S) -> str | None:
        """The true state at `time_s`; None within `around_s` of a change, and where it is unknown."""
        if any(abs(time_s - changed) < around_s for changed, _ in self.changes[1:]):
            return None
        true = [state for changed, state in self.changes if changed <= time_s]
        return true[-1] or None if true else None

    def step_at(self, time_s: float) -> str:
        """The name of the sequence at `time_s`."""
        return next((name for began, name in reversed(self.steps) if began <= time_s), "start")


class NotPlayed(Exception):
    """An act of claude that a sequence waits for has not come."""


class Run:
    """One session of the real program, which the script controls."""

    def __init__(
        self,
        instance: ClaudeInstance,
        api: ScriptedApi,
        agent: str = "",
        prompt: str | None = None,
        session_id: str | None = None,
    ) -> None:
        """`session_id`: a session that exists already; its state is unknown."""
        self.instance, self.api = instance, api
        self.client = Client(str(instance.socket))
        self.truth = Truth()
        self.truth.now("starting" if session_id is None else UNKNOWN)
        self.others: list[Run] = []
        """Sessions that came from this one."""
        arguments = (agent,) if prompt is None else (agent, prompt)
        self.id = session_id or instance.spawn(*arguments)["session_id"]
        self._over = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def _sample(self) -> None:
        client = Client(str(self.instance.socket))
        while not self._over.wait(EVERY_S):
            at = time.time()
            with suppress(SmError):
                found = client.get(f"/v1/sessions/{self.id}")
                status = "ended" if found["status"] in _ENDED else found["status"]
                self.truth.samples.append((at, status, found["status_reason"]))

    def end(self) -> None:
        self._over.set()
        self._sampler.join()
        for other in self.others:
            other.end()

    # Acts

    def keep_state(self, seconds: float = KEEP_STATE_S) -> None:
        time.sleep(seconds)

    def prompt(self, text: str) -> None:
        self.instance.prompt(self.id, text)
        self.truth.now("running")

    def press(self, *keys: str, then: str) -> None:
        self.instance.keys(self.id, *keys)
        self.truth.now(then)

    def press_until_shown(self, words: str, *keys: str, then: str) -> None:
        """Press keys until the screen shows the words: claude loses keys while it draws."""
        repeat_until(
            lambda: self.instance.keys(self.id, *keys), lambda: words in self.screen(), f"{words} is shown"
        )
        self.truth.now(then)

    def answer(self, key: str, then: str) -> None:
        """Answer the dialog on the screen."""
        self.instance.answer_dialog(self.id, key)
        self.truth.now(then)

    def sm(self, *arguments: str) -> None:
        """Run a command of sm. The true state is unknown until the sequence says it."""
        self.truth.now(UNKNOWN)
        self.instance.sm(*arguments)

    def send(self, text: str, mode: str = "auto") -> None:
        """Send a message. The true state stays as it is."""
        self.client.post("/v1/messages", {"to": self.id, "text": text, "mode": mode}, key=new_key())

    # What claude does

    def screen(self) -> str:
        return self.instance.tmux("capture-pane", "-p", "-t", f"=claude-{self.id}:", check=False)

    def wait_ready(self) -> None:
        """Wait until the prompt is on the screen."""
        footers = ("? for shortcuts", "mode on", "edits on")
        until(lambda: any(words in self.screen() for words in footers), "a prompt")
        self.truth.now("idle")

    def wait_shown(self, words: str) -> None:
        until(lambda: words in self.screen(), f"{words} on the screen")

    def wait_held(self, name: str) -> Request:
        found: Request = self._wait_api(
            lambda: next((r for r in self.api.requests if r.held == name), None), name
        )
        return found

    def wait_asked(self, words: str, count: int = 1, then: str = "running") -> None:
        """Wait until claude has sent `count` requests in the turn with these words."""
        self._wait_api(lambda: len(self.api.turns(words)) >= count, f"request {count} of {words}")
        self.truth.now(then)

    def wait_answered(self, words: str, count: int, then: str) -> None:
        """Wait until the API has sent the whole of its `count`th answer in the turn with these words."""
        self._wait_api(
            lambda: sum(bool(one.answer and one.answer.whole) for one in self.api.turns(words)) >= count,
            f"answer {count} of {words}",
        )
        self.truth.now(then)

    def wait_quiet(self) -> None:
        """Wait until claude has asked the model nothing for a while: it has been idle since the last answer."""
        quiet_since: float | None = None
        until_s = time.monotonic() + STEP_S
        while quiet_since is None or time.time() - quiet_since < _QUIET_S:
            if not all(one.over for one in list(self.api.requests)):
                if quiet_since is not None:
                    self.truth.changes += [(quiet_since, UNKNOWN), (time.time(), "running")]
                quiet_since = None
            elif quiet_since is None:
                quiet_since = time.time()
            if time.monotonic() > until_s:
                raise NotPlayed(f"quiet; the screen shows:\n{self.screen()}")
            time.sleep(0.02)
        self.truth.changes.append((quiet_since, "idle"))

    def wait_over(self, words: str, then: str) -> None:
        """Wait until a request of the turn with these words is over, with or without an answer."""
        self._wait_api(lambda: any(one.over for one in self.api.turns(words)), f"the end of {words}")
        self.truth.now(then)

    def wait_gone(self, pid: int) -> None:
        until(lambda: not Path(f"/proc/{pid}").exists(), "its process is gone")
        self.truth.now("ended")

    def pid(self) -> int:
        return int(self.instance.session(self.id)["pid"])

    def request(self) -> str:
        """The id of the open request of the session."""
        (found,) = until(lambda: self.instance.get("/v1/requests", session=self.id), "a request is open")
        return str(found["request_id"])

    def _wait_api(self, found: Callable[[], Any], what: str) -> Any:
        try:
            return self.api.wait_for(found, what, STEP_S)
        except TimeoutError as error:
            raise NotPlayed(f"{what}; the screen shows:\n{self.screen()}") from error


@contextmanager
def limited() -> Iterator[None]:
    """Give up a wait for the screen of claude after a time, which would last for ever."""
    until_s = time.monotonic() + STEP_S

    def check() -> str | None:
        return "its time is over" if time.monotonic() > until_s else None

    failure_checks.append(check)
    try:
        yield
    finally:
        failure_checks.remove(check)


# --------------------------------------------------------------------------------- turns that a person begins

ASKS = tool("Bash", command="python3 -c pass")


def _works(seconds: int) -> str:
    """A tool that takes so long. A later claude refuses a bare sleep."""
    return tool("Bash", command=f"echo a; sleep {seconds}")


def _question(*questions: str) -> str:
    options = [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]
    asked = [{"question": q, "header": "Colour", "multiSelect": False, "options": options} for q in questions]
    return tool("AskUserQuestion", questions=asked)


def _agent(prompt: str, *, behind: bool = False) -> str:
    """A sub-agent. A later claude runs it in the background unless it is told otherwise."""
    part = {"description": "part", "prompt": prompt, "subagent_type": "general-purpose"}
    return tool("Agent", **part, run_in_background=behind)


def _turn(name: str, script: str, answers: int = 1) -> Callable[[Run], None]:
    """A sequence of one turn without any act in between."""

    def sequence(run: Run) -> None:
        run.prompt(f"step-{name} {script}")
        run.wait_answered(f"step-{name}", answers, "idle")
        run.keep_state()

    return sequence


def _dialog(name: str, call: str, shown: str, key: str, answers: int = 2) -> Callable[[Run], None]:
    """A sequence with one dialog, which a person answers. `answers`: of the API; 1 if the key ends the turn."""

    def sequence(run: Run) -> None:
        run.prompt(f"step-{name} {call}[[then]][[wait:3]][[text:so]]")
        run.wait_answered(f"step-{name}", 1, "waiting_input")
        run.wait_shown(shown)
        run.keep_state()
        run.answer(key, "running" if answers > 1 else "idle")
        run.wait_answered(f"step-{name}", answers, "idle")
        run.keep_state()

    return sequence


def _by_sm(name: str, call: str, shown: str, *command: str) -> Callable[[Run], None]:
    """A sequence with one dialog, which a command of sm answers."""

    def sequence(run: Run) -> None:
        run.prompt(f"step-{name} {call}[[then]][[wait:3]][[text:so]]")
        run.wait_answered(f"step-{name}", 1, "waiting_input")
        run.wait_shown(shown)
        run.keep_state()
        run.sm(command[0], run.request(), *command[1:])
        run.wait_asked(f"step-{name}", 2)
        run.wait_answered(f"step-{name}", 2, "idle")
        run.keep_state()

    return sequence


def _interrupted(name: str, script: str) -> Callable[[Run], None]:
    """A sequence of a turn that a person interrupts while the API holds the answer."""

    def sequence(run: Run) -> None:
        run.prompt(f"step-{name} {script}[[hold:{name}]]")
        run.wait_held(name)
        run.keep_state()
        run.press("Escape", then="idle")
        run.keep_state()
        run.press("C-u", "C-u", "C-u", then="idle")  # the prompt may be back in the box
        run.api.release(name)

    return sequence


def _sub_agents(name: str, calls: str) -> Callable[[Run], None]:
    """A sequence of a turn with sub-agents, which a later claude runs in the background: their ends begin turns."""

    def sequence(run: Run) -> None:
        run.prompt(f"step-{name} {calls}[[then]][[text:all]]")
        run.wait_answered(f"step-{name}", 2, "running")
        run.wait_quiet()
        run.keep_state()

    return sequence


def _tool_interrupted(run: Run) -> None:
    run.prompt(f"step-theta {_works(60)}[[then]][[text:never]]")
    run.wait_answered("step-theta", 1, "running")
    run.keep_state()
    run.press("Escape", then="idle")
    run.keep_state()


def _sub_agent_interrupted(run: Run) -> None:
    run.prompt(f"step-omega {_agent('omega-part [[text:x]][[hold:omega]]')}[[then]][[text:never]]")
    run.wait_held("omega")
    run.keep_state()
    run.press("Escape", then=UNKNOWN)
    run.keep_state(1)
    held = any(one.held == "omega" and not one.over for one in run.api.requests)
    run.truth.now("running" if held else "idle")  # it goes on in the background
    run.keep_state()
    run.truth.now(UNKNOWN)
    run.api.release("omega")
    run.wait_quiet()


def _tool_fails(run: Run) -> None:
    call = tool("Read", file_path=f"{run.instance.work}/missing")
    run.prompt(f"step-failed {call}[[then]][[wait:3]][[text:so]]")
    run.wait_answered("step-failed", 2, "idle")
    run.keep_state()


def _fails(run: Run) -> None:
    run.prompt("step-lambda [[error:400:*]]")
    run.wait_over("step-lambda", "idle")
    run.keep_state()


def _two_permissions(run: Run) -> None:
    run.prompt(
        f"step-twice {ASKS}[[then]][[wait:3]]{tool('Bash', command='python3 -c 1')}[[then]][[text:so]]"
    )
    for number, then in ((1, "running"), (2, "idle")):
        run.wait_answered("step-twice", number, "waiting_input")
        run.wait_shown("Do you want")
        run.keep_state()
        run.answer("Enter", then)
    run.wait_answered("step-twice", 3, "idle")
    run.keep_state()


def _sub_agent_asks(run: Run) -> None:
    """claude shows no dialog for a sub-agent in the background, and works meanwhile."""
    run.prompt(f"step-asks {_agent(f'asks-part {ASKS}[[then]][[wait:3]][[text:x]]')}[[then]][[text:all]]")
    run.wait_answered("asks-part", 1, UNKNOWN)
    request = run.request()
    run.keep_state(1)
    run.truth.now("waiting_input" if "Do you want" in run.screen() else "running")
    run.keep_state()
    run.sm("approve", request)
    run.wait_asked("asks-part", 2)
    run.wait_quiet()
    run.keep_state()


def _background_sub_agent(run: Run) -> None:
    part = _agent("back-part [[hold:back]][[text:y]]", behind=True)
    before = len(run.api.turns("task-notification"))
    run.prompt(f"step-back {part}[[then]][[text:waits]]")
    run.wait_answered("step-back", 2, "running")
    run.keep_state()
    run.truth.now(UNKNOWN)  # claude may be idle for a moment before it begins the turn that reads the result
    run.api.release("back")
    run.wait_answered("task-notification", before + 1, "idle")
    run.keep_state()


def _background_shell(run: Run) -> None:
    shell = tool("Bash", command="echo a; sleep 6", run_in_background=True)
    before = len(run.api.turns("task-notification"))
    run.prompt(f"step-nu {shell}[[then]][[text:started]]")
    run.wait_answered("step-nu", 2, "idle")
    run.keep_state()
    # When the shell ends, claude begins a turn by itself.
    run.wait_asked("task-notification", before + 1)
    run.wait_answered("task-notification", before + 1, "idle")
    run.keep_state()


def _queued(run: Run) -> None:
    run.prompt(f"step-xi {_works(4)}[[then]][[text:one]]")
    run.wait_answered("step-xi", 1, "running")
    run.keep_state(1)
    run.instance.prompt(run.id, "omicron")
    run.wait_answered("step-xi", 2, "idle")  # the queued prompt was read in the same turn
    run.keep_state()


# ------------------------------------------------------------------------------- views and commands of claude


def _model_dialog(run: Run) -> None:
    run.instance.prompt(run.id, "/model")
    run.wait_shown("Esc to")
    run.truth.now("waiting_input")
    run.keep_state()
    run.press("Escape", then="idle")
    run.keep_state()


def _rewind(run: Run) -> None:
    run.press_until_shown("Rewind", "Escape", "Escape", then="waiting_input")
    run.keep_state(4)
    run.press("Escape", then="idle")
    run.keep_state()


def _transcript_view(run: Run) -> None:
    run.press_until_shown("Showing detailed transcript", "C-o", then="waiting_input")
    run.keep_state(4)
    run.press("C-o", then="idle")
    run.keep_state()


def _draft(run: Run) -> None:
    run.press("a draft", then="idle")
    run.keep_state()
    run.press("C-u", then="idle")


def _modes(run: Run) -> None:
    for _ in range(2):
        run.press("BTab", then="idle")
        run.keep_state()


def _suspended(run: Run) -> None:
    run.press_until_shown("Run `fg` to bring", "C-z", then="waiting_input")
    run.keep_state()
    run.sm("interrupt", run.id)
    run.truth.now("idle")
    run.keep_state()


def _compacts(run: Run) -> None:
    run.instance.prompt(run.id, "/compact")
    run.truth.now("running")
    run.wait_shown("Compacted")
    run.truth.now("idle")
    run.keep_state()


def _clears(run: Run) -> None:
    run.instance.prompt(run.id, "/clear")
    run.truth.now("running")
    until(lambda: "Compacted" not in run.screen() and "step-" not in run.screen(), "an empty screen")
    run.truth.now("idle")
    run.keep_state()
    run.prompt("step-pi [[words:15:0.1]]")
    run.wait_answered("step-pi", 1, "idle")
    run.keep_state()


def _exits(run: Run) -> None:
    pid = run.pid()
    run.instance.prompt(run.id, "/exit")
    run.truth.now(UNKNOWN)
    run.wait_gone(pid)
    run.keep_state()


# ---------------------------------------------------------------------------------------------- acts through sm


def _interrupted_by_sm(run: Run) -> None:
    run.prompt("step-cut-off [[text:first]][[hold:cut-off]]")
    run.wait_held("cut-off")
    run.keep_state()
    run.sm("interrupt", run.id)
    run.wait_over("step-cut-off", "idle")
    run.keep_state()
    run.api.release("cut-off")


def _tool_interrupted_by_sm(run: Run) -> None:
    run.prompt(f"step-tool-off {_works(60)}[[then]][[text:never]]")
    run.wait_answered("step-tool-off", 1, "running")
    run.keep_state()
    run.sm("interrupt", run.id)
    run.wait_shown("Interrupted")
    run.truth.now("idle")
    run.keep_state()


def _message(run: Run) -> None:
    run.truth.now(UNKNOWN)
    run.send("step-message [[wait:3]][[text:so]]")
    run.wait_asked("step-message")
    run.wait_answered("step-message", 1, "idle")
    run.keep_state()


def _message_while_busy(run: Run) -> None:
    run.prompt("step-holds [[text:x]][[hold:holds]]")
    run.wait_held("holds")
    run.send("step-behind [[wait:3]][[text:so]]")
    run.keep_state()
    run.truth.now(UNKNOWN)
    run.api.release("holds")
    run.wait_asked("step-behind")
    run.wait_answered("step-behind", 1, "idle")
    run.keep_state()


def _urgent(run: Run) -> None:
    run.prompt("step-slowly [[text:x]][[hold:slowly]]")
    run.wait_held("slowly")
    run.keep_state()
    run.truth.now(UNKNOWN)
    run.send("step-at-once [[wait:3]][[text:so]]", "urgent")
    run.wait_asked("step-at-once")
    run.wait_answered("step-at-once", 1, "idle")
    run.keep_state()
    run.api.release("slowly")


def _daemon_restart(run: Run) -> None:
    run.prompt("step-away [[text:x]][[hold:away]]")
    run.wait_held("away")
    run.keep_state()
    run.instance.kill_daemon()
    run.instance.start_daemon()
    run.keep_state()
    run.truth.now(UNKNOWN)
    run.api.release("away")
    run.wait_answered("step-away", 1, "idle")
    run.keep_state()


def _completes(run: Run) -> None:
    done = tool("Bash", command="sm complete all-done")
    run.prompt(f"step-complete {done}[[then]][[text:bye]]")
    run.wait_answered("step-complete", 1, UNKNOWN)
    run.wait_answered("step-complete", 2, "ended")
    run.keep_state()
    run.prompt("step-more [[wait:3]][[text:so]]")
    run.wait_answered("step-more", 1, "idle")
    run.keep_state()


def _resumes(run: Run) -> None:
    run.sm("kill", run.id)
    run.truth.now("ended")
    run.keep_state()
    run.sm("restore", run.id)
    run.wait_ready()
    run.keep_state()
    run.prompt("step-resumed [[wait:3]][[text:so]]")
    run.wait_answered("step-resumed", 1, "idle")
    run.keep_state()


def _forks(run: Run) -> None:
    fork = Run(run.instance, run.api, session_id=run.instance.json("fork", run.id)["session_id"])
    fork.truth.steps.append((time.time(), "forks"))
    run.others.append(fork)
    fork.wait_ready()
    fork.keep_state()
    fork.prompt("step-fork [[wait:3]][[text:so]]")
    fork.wait_answered("step-fork", 1, "idle")
    fork.keep_state()


def _killed_by_sm(run: Run) -> None:
    run.prompt("step-killed [[text:x]][[hold:killed]]")
    run.wait_held("killed")
    run.keep_state()
    run.sm("kill", run.id)
    run.truth.now("ended")
    run.keep_state()
    run.api.release("killed")


def _crashes(run: Run) -> None:
    run.prompt("step-sigma [[text:x]][[hold:sigma]]")
    run.wait_held("sigma")
    run.keep_state()
    os.kill(run.pid(), signal.SIGKILL)
    run.truth.now("ended")
    run.keep_state()
    run.api.release("sigma")


_PLAN = tool("ExitPlanMode", plan="1. do it")

Sequences = Mapping[str, Callable[[Run], None]]
"""Sequences by their names, in the order in which they are played."""

SESSIONS: Sequence[tuple[str, str | None, Sequences]] = (
    (
        "Editor",
        None,
        {
            "text": _turn("alpha", "[[words:20:0.1]]"),
            "thinks": _turn("beta", "[[think:Hm]][[wait:2]][[text:so]]"),
            "tool": _turn("gamma", f"{_works(3)}[[then]][[text:slept]]", 2),
            "permission granted": _dialog("delta", ASKS, "Do you want", "Enter"),
            "permission refused": _dialog("epsilon", ASKS, "Do you want", "Escape", 1),
            "question": _dialog("zeta", _question("Which colour?"), "Which colour?", "Enter"),
            "interrupted": _interrupted("eta", "[[text:first]]"),
            "tool interrupted": _tool_interrupted,
            "interrupted before its first word": _interrupted("iota", ""),
            "retries": _turn("kappa", "[[error:529:2]][[text:at last]]"),
            "fails": _fails,
            "sub-agent": _sub_agents("mu", _agent("mu-part [[wait:3]][[text:done]]")),
            "background shell": _background_shell,
            "queued prompt": _queued,
            "model dialog": _model_dialog,
            "rewind": _rewind,
            "transcript view": _transcript_view,
            "compaction": _compacts,
            "clear": _clears,
            "exit": _exits,
        },
    ),
    (
        "Planner",
        None,
        {
            "plan refused": _dialog("rho", _PLAN, "1. do it", "Escape", 1),
            "plan approved by sm": _by_sm("phi", _PLAN, "1. do it", "approve"),
            "crash": _crashes,
        },
    ),
    (
        "Editor",
        "step-first [[wait:4]][[text:so]]",
        {
            "two tools": _turn("pair", f"{_works(3)}{tool('Bash', command='echo b')}[[then]][[text:so]]", 2),
            "long turn": _turn(
                "chain", f"[[think:Hm]]{_works(1)}[[then]][[words:10:0.1]]{_works(1)}[[then]][[text:so]]", 3
            ),
            "permission granted by sm": _by_sm("granted", ASKS, "Do you want", "approve"),
            "permission denied by sm": _by_sm("denied", ASKS, "Do you want", "deny", "by hand"),
            "two permissions": _two_permissions,
            "question answered by sm": _by_sm(
                "told", _question("Which colour?"), "Which colour?", "answer", "2"
            ),
            "question declined": _dialog("declined", _question("Which shade?"), "Which shade?", "Escape", 1),
            "sub-agent asks": _sub_agent_asks,
            "two sub-agents": _sub_agents(
                "both",
                _agent("one-part [[wait:3]][[text:1]]") + _agent("two-part [[wait:2]][[text:2]]"),
            ),
            "background sub-agent": _background_sub_agent,
            "sub-agent interrupted": _sub_agent_interrupted,
            "interrupted while it thinks": _interrupted("thought", "[[think:Hm]]"),
            "interrupted by sm": _interrupted_by_sm,
            "tool interrupted by sm": _tool_interrupted_by_sm,
            "message": _message,
            "message while busy": _message_while_busy,
            "urgent message": _urgent,
            "tool fails": _tool_fails,
            "connection cut": _turn("half", "[[text:half]][[cut]][[wait:2]][[text:whole]]"),
            "slow first word": _turn("slow", "[[wait:4]][[text:so]]"),
            "rate limit": _turn("limit", "[[error:429:1:2]][[text:so]]"),
            "draft": _draft,
            "suspended": _suspended,
            "daemon restart": _daemon_restart,
            "completed, and reopened": _completes,
            "resume": _resumes,
            "fork": _forks,
            "mode changed": _modes,
            "killed by sm": _killed_by_sm,
        },
    ),
)
"""For each session: its agent type, its first prompt and its sequences."""

COUNT = sum(1 + len(sequences) for _, _, sequences in SESSIONS)
"""How many sequences there are, with the start of each session."""


def begin(instance: ClaudeInstance, api: ScriptedApi, agent: str, prompt: str | None) -> Run:
    """Start a session: the first sequence."""
    run = Run(instance, api, agent, prompt)
    run.truth.steps.append((time.time(), "start" if prompt is None else "start with a prompt"))
    if prompt is None:
        run.wait_ready()
    else:
        run.truth.now(UNKNOWN)  # it may work for a while before it asks the model
        run.wait_asked(prompt)
        run.wait_answered(prompt, 1, "idle")
    run.keep_state()
    return run
