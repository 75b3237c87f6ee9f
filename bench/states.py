"""`python -m bench states`: measures how often the status is right, with the real Claude Code in every state.

The script knows the true state from its own actions: it entered a prompt, the API sent the whole answer, it pressed a
key. The status is sampled ten times a second. Samples within `AROUND_S` of a change do not count, because the agent
itself takes a moment.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sm.client.http import Client
from sm.core.observation import Source
from sm.errors import SmError
from tests.claude_instance import ClaudeInstance
from tests.instance import until
from tests.scripted_api import ScriptedApi, tool

AROUND_S = 0.5
EVERY_S = 0.1
KEEP_STATE_S = 2.5
"""Time that each state is kept, so that most of its samples are not near a change."""
STATES = ("starting", "running", "waiting_input", "idle", "ended")
_ENDED = frozenset({"completed", "error", "killed", "abandoned"})


@dataclass
class Truth:
    """The true states of one session with their times, and the sampled states."""

    changes: list[tuple[float, str]] = field(default_factory=list)
    samples: list[tuple[float, str, str]] = field(default_factory=list)
    steps: list[tuple[float, str]] = field(default_factory=list)
    """The start of each step of the script."""

    def now(self, state: str) -> None:
        if not self.changes or self.changes[-1][1] != state:
            self.changes.append((time.time(), state))

    def state_at(self, time_s: float) -> str | None:
        """The true state at `time_s`; None near a change."""
        if any(abs(time_s - changed) < AROUND_S for changed, _ in self.changes[1:]):
            return None
        true = [state for changed, state in self.changes if changed <= time_s]
        return true[-1] if true else None


class Run:
    """One session of the real program, which the script controls."""

    def __init__(
        self, instance: ClaudeInstance, api: ScriptedApi, agent: str, prompt: str | None = None
    ) -> None:
        self.instance, self.api = instance, api
        self.truth = Truth()
        self.truth.now("starting")
        arguments = (agent,) if prompt is None else (agent, prompt)
        self.id = instance.spawn(*arguments)["session_id"]
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

    # Steps of the script

    def keep_state(self, seconds: float = KEEP_STATE_S) -> None:
        time.sleep(seconds)

    def wait_ready(self) -> None:
        """Wait until the prompt is on the screen."""
        until(
            lambda: (
                "? for shortcuts" in self.screen()
                or "mode on" in self.screen()
                or "edits on" in self.screen()
            ),
            "a prompt",
        )
        self.truth.now("idle")

    def screen(self) -> str:
        return self.instance.tmux("capture-pane", "-p", "-t", f"=claude-{self.id}:", check=False)

    def prompt(self, text: str) -> None:
        self.instance.prompt(self.id, text)
        self.truth.now("running")

    def press(self, *keys: str, then: str) -> None:
        self.instance.keys(self.id, *keys)
        self.truth.now(then)

    def wait_answered(self, words: str, count: int, then: str) -> None:
        """Wait until the API has sent the whole of its `count`th answer in the turn with these words."""
        self.api.wait_for(
            lambda: sum(one.over and one.status == 200 for one in self.api.turns(words)) >= count,
            f"answer {count} of {words}",
        )
        self.truth.now(then)

    def wait_shown(self, words: str) -> None:
        try:
            until(lambda: words in self.screen(), f"{words} on the screen")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.screen()}") from None


# ------------------------------------------------------------------------------------------------ the script


def _text(run: Run) -> None:
    run.prompt("step-alpha [[words:20:0.1]]")
    run.wait_answered("step-alpha", 1, "idle")
    run.keep_state()


def _thinks(run: Run) -> None:
    run.prompt("step-beta [[think:Hm]][[wait:2]][[text:so]]")
    run.wait_answered("step-beta", 1, "idle")
    run.keep_state()


def _tool(run: Run) -> None:
    run.prompt(f"step-gamma {tool('Bash', command='sleep 3')}[[then]][[text:slept]]")
    run.wait_answered("step-gamma", 2, "idle")
    run.keep_state()


def _permission_granted(run: Run) -> None:
    run.prompt(f"step-delta {tool('Bash', command='python3 -c pass')}[[then]][[wait:2]][[text:touched]]")
    run.wait_answered("step-delta", 1, "waiting_input")
    run.wait_shown("Do you want")
    run.keep_state()
    run.press("Enter", then="running")
    run.wait_answered("step-delta", 2, "idle")
    run.keep_state()


def _permission_rejected(run: Run) -> None:
    run.prompt(f"step-epsilon {tool('Bash', command='python3 -c pass')}[[then]][[text:no]]")
    run.wait_answered("step-epsilon", 1, "waiting_input")
    run.wait_shown("Do you want")
    run.keep_state()
    run.press("Escape", then="idle")
    run.keep_state()


def _question(run: Run) -> None:
    options = [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]
    asked = [{"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}]
    run.prompt(f"step-zeta {tool('AskUserQuestion', questions=asked)}[[then]][[wait:2]][[text:red]]")
    run.wait_answered("step-zeta", 1, "waiting_input")
    run.wait_shown("Which colour?")
    run.keep_state()
    run.press("Enter", then="running")
    run.wait_answered("step-zeta", 2, "idle")
    run.keep_state()


def _interrupted(run: Run) -> None:
    run.prompt("step-eta [[text:first]][[hold:eta]]")
    run.api.wait_for_hold("eta")
    run.keep_state()
    run.press("Escape", then="idle")
    run.keep_state()
    run.api.release("eta")


def _interrupted_tool(run: Run) -> None:
    run.prompt(f"step-theta {tool('Bash', command='sleep 30')}[[then]][[text:never]]")
    run.wait_answered("step-theta", 1, "running")
    run.keep_state()
    run.press("Escape", then="idle")
    run.keep_state()


def _interrupted_early(run: Run) -> None:
    run.prompt("step-iota [[hold:iota]]")
    run.api.wait_for_hold("iota")
    run.keep_state()
    run.press("Escape", then="idle")
    run.keep_state()
    run.press("C-u", "C-u", "C-u", then="idle")  # the prompt is back in the box
    run.api.release("iota")


def _retries(run: Run) -> None:
    run.prompt("step-kappa [[error:529:2]][[text:at last]]")
    run.wait_answered("step-kappa", 1, "idle")
    run.keep_state()


def _fails(run: Run) -> None:
    run.prompt("step-lambda [[error:400:*]]")
    run.api.wait_for(lambda: any(one.over for one in run.api.turns("step-lambda")), "a refusal")
    run.truth.now("idle")
    run.keep_state()


def _sub_agent(run: Run) -> None:
    part = tool(
        "Agent", description="part", prompt="mu-part [[wait:3]][[text:done]]", subagent_type="general-purpose"
    )
    run.prompt(f"step-mu-main {part}[[then]][[text:all]]")
    run.wait_answered("step-mu-main", 2, "idle")
    run.keep_state()


def _background_shell(run: Run) -> None:
    shell = tool("Bash", command="sleep 6", run_in_background=True)
    run.prompt(f"step-nu {shell}[[then]][[text:started]]")
    run.wait_answered("step-nu", 2, "idle")
    run.keep_state()
    # When the shell ends, claude begins a turn by itself.
    run.api.wait_for(lambda: len(run.api.turns("task-notification")) >= 1, "the notification")
    run.truth.now("running")
    run.api.wait_for(lambda: any(one.over for one in run.api.turns("task-notification")), "its answer")
    run.truth.now("idle")
    run.keep_state()


def _queued(run: Run) -> None:
    run.prompt(f"step-xi {tool('Bash', command='sleep 4')}[[then]][[text:one]]")
    run.wait_answered("step-xi", 1, "running")
    run.keep_state(1)
    run.instance.prompt(run.id, "omicron")
    run.wait_answered(
        "step-xi", 2, "idle"
    )  # the queued prompt was read with the result of the tool, in the same turn
    run.keep_state()


def _model_dialog(run: Run) -> None:
    run.instance.prompt(run.id, "/model")
    run.wait_shown("Esc to")
    run.truth.now("waiting_input")
    run.keep_state()
    run.press("Escape", then="idle")
    run.keep_state()


def _rewind(run: Run) -> None:
    run.press("Escape", "Escape", then="waiting_input")
    run.wait_shown("Rewind")
    run.keep_state(4)
    run.press("Escape", then="idle")
    run.keep_state()


def _transcript_view(run: Run) -> None:
    run.press("C-o", then="waiting_input")
    run.wait_shown("Showing detailed transcript")
    run.keep_state(4)
    run.press("C-o", then="idle")
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
    run.instance.prompt(run.id, "/exit")
    run.wait_shown("Resume this session")
    run.truth.now("ended")
    run.keep_state()


def _plan(run: Run) -> None:
    run.prompt(f"step-rho {tool('ExitPlanMode', plan='1. do it')}[[then]][[text:planned]]")
    run.wait_answered("step-rho", 1, "waiting_input")
    run.keep_state()
    run.press("Escape", then="idle")
    run.keep_state()


def _killed(run: Run) -> None:
    run.prompt("step-sigma [[text:x]][[hold:sigma]]")
    run.api.wait_for_hold("sigma")
    run.keep_state()
    pid = run.instance.session(run.id)["pid"]
    os.kill(pid, signal.SIGKILL)
    run.truth.now("ended")
    run.keep_state()
    run.api.release("sigma")


SCRIPTS: tuple[tuple[str, tuple[Callable[[Run], None], ...]], ...] = (
    (
        "Editor",
        (
            _text, _thinks, _tool, _permission_granted, _permission_rejected, _question, _interrupted,
            _interrupted_tool, _interrupted_early, _retries, _fails, _sub_agent, _background_shell, _queued,
            _model_dialog, _rewind, _transcript_view, _compacts, _clears, _exits,
        ),
    ),
    ("Planner", (_plan, _killed)),
)  # fmt: skip
"""The steps for a session of each agent type."""


def run_scripts(off: Source | None, scripts: Sequence[str] = (), record: Path | None = None) -> list[Truth]:
    """Run all steps without the source `off`, and return the true and the reported states.

    `record`: a directory for the observations and the true states, one file for each session, for tests to replay.
    """
    ignored = "" if off is None else f", ignore_evidence: [{off.value}]"
    more = f"daemon: {{log_level: debug{ignored}}}"
    truths = []
    with ScriptedApi() as api, ClaudeInstance(api, more=more) as instance:
        for agent, script in SCRIPTS:
            run = Run(instance, api, agent)
            truths.append(run.truth)
            try:
                run.wait_ready()
                run.keep_state()
                for step in script:
                    if not scripts or step.__name__.lstrip("_") in scripts:
                        print(f"  {step.__name__.lstrip('_')}", file=sys.stderr, flush=True)
                        run.truth.steps.append((time.time(), step.__name__.lstrip("_")))
                        step(run)
            finally:
                run.end()
            if record is not None:
                (record / f"{agent.lower()}.jsonl").write_text(_recording(instance, run))
    return truths


def _recording(instance: ClaudeInstance, run: Run) -> str:
    """Lines of JSON in the order of time: {"t", "true"} and {"t", "source", "activity", "at", ...}."""
    lines: list[dict[str, object]] = [{"t": at, "true": state} for at, state in run.truth.changes]
    for text in (instance.state / "log" / "daemon.log").read_text().splitlines():
        line = json.loads(text)
        if line["message"] == "observed" and line["sm_session"] == run.id:
            seen = datetime.fromisoformat(line["time"]).timestamp()
            reported = {name[3:]: value for name, value in line.items() if name.startswith("sm_")}
            del reported["session"]
            lines.append({"t": seen, **{name: value for name, value in reported.items() if value}})
    lines.sort(key=lambda line: float(str(line["t"])))
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def confusion(truths: Sequence[Truth]) -> Counter[tuple[str, str]]:
    """Counts of (true, reported) over all samples that are not near a change."""
    found: Counter[tuple[str, str]] = Counter()
    for truth in truths:
        for at, reported, _ in truth.samples:
            true = truth.state_at(at)
            if true is not None:
                found[true, "starting" if reported == "spawned" else reported] += 1
    return found


def accuracy(matrix: Counter[tuple[str, str]]) -> float:
    right = sum(count for (true, reported), count in matrix.items() if true == reported)
    return right / max(1, matrix.total())


def wrong(truths: Sequence[Truth]) -> Iterator[str]:
    """Describe the first sample of each run of wrong samples, with the reported reason."""
    for truth in truths:
        before = False
        for at, reported, reason in truth.samples:
            true = truth.state_at(at)
            is_wrong = true is not None and true != reported
            if is_wrong and not before:
                since = at - max(changed for changed, _ in truth.changes if changed <= at)
                step = next((name for began, name in reversed(truth.steps) if began <= at), "start")
                yield f"{step}: {true} for {since:.1f} s, reported {reported}: {reason}"
            before = is_wrong


def main(arguments: Sequence[str]) -> int:
    """Return 0 when at least 99% of the samples are right in every run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench states", description="Measure how often the status is right."
    )
    parser.add_argument("--off", choices=[*(s.value for s in Source), "none", "each"], default="each")
    parser.add_argument("--only", nargs="*", default=(), help="names of the steps to run (default: all)")
    parser.add_argument("--record", type=Path, help="directory for the recorded observations")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    wanted: list[Source | None] = [None, *Source]
    if options.off != "each":
        wanted = [None if options.off == "none" else Source(options.off)]
    answers = []
    for off in wanted:
        print(f"without {off or 'nothing'} ...", file=sys.stderr, flush=True)
        truths = run_scripts(off, options.only, options.record)
        matrix = confusion(truths)
        answers.append(
            {
                "off": off,
                "n": matrix.total(),
                "accuracy": accuracy(matrix),
                "matrix": {
                    f"{true} -> {reported}": count for (true, reported), count in sorted(matrix.items())
                },
                "errors": list(wrong(truths)),
            }
        )
        if not options.json:
            print("\n".join(_table(off, matrix)))
            print("\n".join(f"  {error}" for error in wrong(truths)), flush=True)
    if options.json:
        print(json.dumps(answers, indent=2))
    return int(any(float(str(answer["accuracy"])) < 0.99 for answer in answers))


def _table(off: Source | None, matrix: Counter[tuple[str, str]]) -> Iterator[str]:
    yield ""
    title = "all sources" if off is None else f"without the {off}"
    yield f"{title}: {100 * accuracy(matrix):.2f}% of {matrix.total()} samples"
    yield f"{'true / said':>14}" + "".join(f"{reported:>14}" for reported in STATES)
    for true in STATES:
        yield f"{true:>14}" + "".join(f"{matrix[true, reported]:>14}" for reported in STATES)
