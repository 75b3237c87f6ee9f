"""The contracts of Claude Code. Each is played with agents of its own; the model is the scripted API."""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

from sm.client.http import session_path
from sm.config import Config
from sm.errors import SmError
from sm.linux.processes import identify, program_of, read_stat
from sm.providers.checks import CheckStage, Contract, Outcome, ProgramPackage
from sm.providers.claude.check.play import (
    LONG_COMMAND,
    QUIET,
    ContractBroken,
    FalseClaim,
    Play,
    expect,
    expect_true_claim,
    seed,
)
from sm.providers.claude.check.screens import look_at_screens
from sm.providers.claude.check.scripted_api import ModelRequest, ScriptedApi, TokenUsage, tool, usage
from sm.providers.claude.dialect import Known, current, facts_text, version_in
from sm.providers.claude.dialect import use as use_dialect
from sm.providers.claude.program_help import OLDEST, is_own_program
from sm.providers.claude.section import ClaudeSection

_AT_ONCE = 3
"""Contracts that are played at the same time: most of their time is waiting."""
_EVIDENCE_MAX = 300
_SHORT_CALL_MS = 2000
_SETTLES_S = 1.0
_ENDED = ("completed", "error", "abandoned", "killed")

_Part = Callable[[Play], str]
_CONTRACTS: dict[str, tuple[Contract, _Part]] = {}


def _contract(name: str, sentence: str, instead: str) -> Callable[[_Part], _Part]:
    """Register a function that plays a contract and returns its evidence."""

    def register(part: _Part) -> _Part:
        _CONTRACTS[name] = (Contract(name, sentence, instead), part)
        return part

    return register


class ClaudeCheck:
    """`ProgramCheck` for Claude Code."""

    package = ProgramPackage(
        "@anthropic-ai/claude-code", "claude", "install.cjs", {"DISABLE_AUTOUPDATER": "1"}
    )

    oldest = OLDEST

    def __init__(self) -> None:
        self.facts = facts_text()
        self.contracts: Sequence[Contract] = [contract for contract, _ in _CONTRACTS.values()]

    def configuration(self, program: str, own: Config) -> Mapping[str, object]:
        # The screens are read here, and all else by the daemon of the private instance.
        dialect = own.section(ClaudeSection).dialect
        use_dialect(dialect)
        types = {
            "Plain": [],
            "Planner": ["--permission-mode", "plan"],
            "Editor": ["--permission-mode", "acceptEdits", "--allowedTools", "Bash(sleep *),Bash(echo *)"],
        }
        return {
            "default_trust": "direct",
            "child_agents": {"auto_complete": {"enabled": False}},
            "claude": {
                "default_command": program,
                "env": dict(QUIET),
                "check_new_versions": False,
                "dialect": dialect,
                "agent_configs": {name: {"args": args} for name, args in types.items()},
            },
        }

    def run(self, stage: CheckStage, names: Sequence[str], *, patience: float = 1) -> Iterator[Outcome]:
        home = Path(stage.directory, "home")
        if not home.exists():
            seed(home)
        with ScriptedApi() as api:
            pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="contract")
            try:
                plays = [
                    pool.submit(
                        _play,
                        name,
                        Play(name, stage.client, api, Path(stage.directory), home, patience, stage.ran),
                    )
                    for name in names
                ]
                for played in as_completed(plays):
                    yield played.result()
            finally:
                # After a signal the daemon is stopped next, so that what still runs ends with an error.
                pool.shutdown(wait=False, cancel_futures=True)


def _play(name: str, play: Play) -> Outcome:
    contract, part = _CONTRACTS[name]
    began = time.monotonic()
    try:
        holds, evidence = True, part(play)
    except ContractBroken as broken:
        holds, evidence = False, str(broken)
    except SmError as error:
        holds, evidence = False, error.message
    if claim := _lasting_false_claim(play):
        holds, evidence = False, str(FalseClaim(claim))
    for session_id in play.sessions:
        try:
            play.kill(session_id, force=True)
        except SmError:  # it has ended
            continue
    evidence = " ".join(evidence.split())[:_EVIDENCE_MAX]
    seconds = round(time.monotonic() - began, 1)
    return Outcome(name, contract.sentence, holds, evidence, seconds, "" if holds else contract.instead)


def _lasting_false_claim(play: Play) -> str:
    """Return what sm says wrongly, twice in a row: a report may be on its way."""
    claim = ""
    for _ in range(2):
        try:
            claim = play.false_claim()
        except SmError:  # nothing can be asked any more, so nothing is claimed
            return ""
        if not claim:
            return ""
        time.sleep(_SETTLES_S)
    return claim


# Start


@_contract(
    "start",
    "It starts, publishes its state, and waits for input.",
    "new agents may seem to do nothing: look at them with sm attach NAME",
)
def _start(play: Play) -> str:
    session_id = play.start_idle("Plain")
    play.until(lambda: play.evidence(session_id, "state file")[0] == "idle", "its state file says idle")
    session = play.session(session_id)
    process = identify(session["pid"])
    program = None if process is None else program_of(process)
    if program is not None and is_own_program(program):
        play.ran.add(program)
    return f"idle by {session['status_source']}"


@_contract(
    "dialogs",
    "A question before its first input is a request that says what it asks.",
    "the dialogs of its first start must be answered at the terminal",
)
def _dialogs(play: Play) -> str:
    environment = play.other_home(trusted=False)
    session_id = play.spawn("Plain", environment=environment, skip_checks=True)
    play.wait_status(session_id, "waiting_input")
    request = play.request(session_id)
    expect(request["kind"] == "setup", f"the request is of kind {request['kind']}")
    asked = (request["arguments"] or {}).get("dialog")
    expect(asked == "trust", f"it is taken for the question {asked!r}")
    play.answer(request, approved=True)
    play.wait_status(session_id, "idle")
    return "the question whether to trust a directory was recognized and answered"


@_contract(
    "tools",
    "Its first request to the model has the tools of sm.",
    "agents may lack the tools of sm: they can still run the command sm in a shell",
)
def _tools(play: Play) -> str:
    request = play.turn_of(play.spawn("Plain", "first-tools [[text:so]]"))
    own = [name for name in request.tools if name.startswith("mcp__sm__")]
    expect(bool(own), f"none of {len(request.tools)} tools is of sm")
    return f"{len(own)} tools of sm"


# Messages


def _arrives(play: Play, session_id: str, text: str) -> None:
    """Send a text to an idle agent and wait until the model gets it as it is."""
    number = play.send(session_id, text)
    marker = text.partition(" ")[0]
    request = play.turn(marker)
    play.wait_message(number, "submitted", "acknowledged")
    got = [said for said in request.user_texts if marker in said][-1]
    if not got.rstrip().endswith(text):
        raise ContractBroken(f"{len(text)} characters arrived changed: ...{got[-120:]!r}")
    play.wait_status(session_id, "idle")


@_contract(
    "text",
    "Messages of 1, 3 and 40 lines and of 900 characters arrive as they were sent.",
    "messages may arrive changed: look at the terminal after sm send",
)
def _text(play: Play) -> str:
    session_id = play.start_idle("Plain")
    for number, lines in enumerate((1, 3, 40)):
        text = "\n".join(f"text{number}{'abc'[number]} line {line} of {lines}" for line in range(lines))
        _arrives(play, session_id, text)
    _arrives(play, session_id, "text900 " + "word " * 178 + "end")
    return "4 of 4 as sent"


@_contract(
    "long-text",
    "A message of 50,000 characters arrives as it was sent.",
    "long messages may arrive changed: write a long text to a file and send its path",
)
def _long_text(play: Play) -> str:
    session_id = play.start_idle("Plain")
    words = " ".join(f"word{number}" for number in itertools.islice(itertools.count(), 6000))
    text = f"long50000 {words}"[:49_990] + " the end."
    began = time.monotonic()
    _arrives(play, session_id, text)
    return f"{len(text)} characters in {time.monotonic() - began:.1f} s"


@_contract(
    "commands",
    "A message that looks like a command of the program is text for the model.",
    "a message that begins with /, ! or # may run as a command: begin it with a word",
)
def _commands(play: Play) -> str:
    session_id = play.start_idle("Plain")
    for text in ("/cost", "!touch never-made", "exit", "#note"):
        number = play.send(session_id, text)
        play.wait_message(number, "submitted", "acknowledged")
        play.until(partial(play.has_said, session_id, text), f"{text} reaches the model")
        play.wait_status(session_id, "idle")
    expect(not (play.project / "never-made").exists(), "!touch ran")
    return "/cost, !touch, exit and #note reached the model"


@_contract(
    "queue",
    "A message to a busy agent is not called read before the agent has read it.",
    "an acknowledged message may not have been read: look at the terminal",
)
def _queue(play: Play) -> str:
    session_id = play.spawn("Plain", "work-queue [[text:a]][[hold:queue]][[text:b]]")
    play.hold("queue")
    number = play.send(session_id, "later-queue")
    play.until(lambda: _is_typed(play, session_id, number), "the message reaches the busy agent")
    seen = play.message(number)
    expect_true_claim(
        seen["status"] != "acknowledged", "it was called acknowledged while the turn before it still ran"
    )
    play.api.release("queue")
    play.wait_message(number, "acknowledged")
    is_read = play.has_said(session_id, "later-queue")
    expect_true_claim(is_read, "it was called acknowledged before the model had it")
    return f"{seen['status']} while busy; acknowledged after it was read"


def _is_typed(play: Play, session_id: str, number: int) -> bool:
    """Return whether claude has the message: it was reported, or the terminal shows it in the queue."""
    status = play.message(number)["status"]
    return status in ("submitted", "acknowledged") or "later-queue" in play.output(session_id)


@_contract(
    "urgent",
    "An urgent message interrupts the turn and is read at once.",
    "urgent messages may wait for the end of the turn: press Escape at the terminal first",
)
def _urgent(play: Play) -> str:
    session_id = play.spawn("Plain", "work-urgent [[text:a]][[hold:urgent]][[text:b]]")
    play.hold("urgent")
    began = time.monotonic()
    number = play.send(session_id, "now-urgent", "urgent")
    play.turn("now-urgent")
    seconds = time.monotonic() - began
    play.wait_message(number, "submitted", "acknowledged")
    return f"the model had it after {seconds:.1f} s, though the turn before had not ended"


# Requests


def _tool_result(play: Play, words: str, count: int = 1) -> tuple[bool, str]:
    """The newest result once the conversation has `count` of them."""
    try:
        failed, output = play.turn(words, results=count).results[-1]
    except ContractBroken as broken:
        expect_true_claim(not play.is_last_answer_confirmed(), f"an answer is called confirmed, but {broken}")
        raise
    return failed, output


@_contract(
    "permission",
    "An answer given through sm is the one that the agent acts on.",
    "permissions must be answered at the terminal",
)
def _permission(play: Play) -> str:
    command = tool("Bash", command="python3 -c 'print(6*7)'", description="count")
    session_id = play.spawn("Plain", f"allowed-tool {command}[[then]][[text:so]]")
    request = play.request(session_id)
    expect(request["tool"] == "Bash", f"the request is about {request['tool']}")
    play.answer(request, approved=True)
    expect(_tool_result(play, "allowed-tool") == (False, "42"), "an approved command did not run")
    play.wait_status(session_id, "idle")
    play.send(session_id, f"denied-tool {command}[[then]][[text:so]]")
    play.answer(play.request(session_id), approved=False, message="count by hand")
    failed, output = _tool_result(play, "denied-tool", 2)
    expect(failed and "count by hand" in output, f"a denied command gave: {output[:100]}")
    return "an approved command ran; a denied one did not, and the reason was passed on"


@_contract(
    "question",
    "A choice made through sm is the answer that the agent gets.",
    "questions must be answered at the terminal",
)
def _question(play: Play) -> str:
    asked = {
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": False,
        "options": [{"label": label, "description": label} for label in ("red", "blue")],
    }
    session_id = play.spawn(
        "Plain", f"asks-question {tool('AskUserQuestion', questions=[asked])}[[then]][[text:so]]"
    )
    request = play.request(session_id)
    expect(request["kind"] == "question", f"the request is of kind {request['kind']}")
    play.answer(request, answers=["blue"])
    failed, output = _tool_result(play, "asks-question")
    expect(not failed and "blue" in output, f"the agent got: {output[:100]}")
    return "the agent got blue"


@_contract(
    "plan",
    "A plan approved through sm is carried out, and a refused one is not.",
    "plans must be approved at the terminal",
)
def _plan(play: Play) -> str:
    plan = tool("ExitPlanMode", plan="1. do it")
    session_id = play.spawn("Planner", f"plan-yes {plan}[[then]][[text:so]]")
    request = play.request(session_id)
    expect(request["tool"] == "ExitPlanMode", f"the request is about {request['tool']}")
    play.answer(request, approved=True)
    failed, output = _tool_result(play, "plan-yes")
    expect(not failed, f"an approved plan was refused: {output[:100]}")
    other = play.spawn("Planner", f"plan-no {plan}[[then]][[text:so]]")
    play.answer(play.request(other), approved=False, message="not like this")
    failed, output = _tool_result(play, "plan-no")
    expect(failed and "not like this" in output, f"a refused plan gave: {output[:100]}")
    return "an approved plan went on; a refused one was told why"


@_contract(
    "mode",
    "It runs in the permission mode that sm ordered.",
    "agents may run in another permission mode than sm shows: look at the terminal",
)
def _mode(play: Play) -> str:
    for agent_type, is_made in (("Editor", True), ("Plain", False)):
        name = f"mode-{agent_type.lower()}"
        path = play.project / f"{name}.txt"
        write = tool("Write", file_path=str(path), content="made")
        session_id = play.spawn(agent_type, f"{name} {write}[[then]][[text:so]]")
        if is_made:
            failed, output = _tool_result(play, name)
            expect(not failed and path.exists(), f"acceptEdits did not write a file: {output[:100]}")
        else:
            play.request(session_id)
            expect(not path.exists(), "without a mode it wrote a file unasked")
        _expect_mode(play, session_id, "acceptEdits" if is_made else "manual")
    return "acceptEdits wrote a file unasked; without a mode it asked"


def _expect_mode(play: Play, session_id: str, ordered: str) -> None:
    """Compare the mode that claude reports with the one that sm ordered."""
    told = next(fact for fact in play.facts(session_id) if fact.startswith("permission mode "))
    expect(
        told.startswith(f"permission mode {ordered} (") and "at the start" not in told, f"it reports {told}"
    )


# Turns


@_contract(
    "interrupt",
    "An interrupt ends the turn: in its text, in a tool, and before its first word.",
    "sm interrupt may not end a turn: press Escape at the terminal",
)
def _interrupt(play: Play) -> str:
    session_id = play.start_idle("Editor")
    sleeps = tool("Bash", command=LONG_COMMAND, description="wait")
    stages = {
        "text": "[[text:begun]][[hold:stop-text]][[text:never]]",
        "tool": f"[[text:begun]]{sleeps}[[then]][[text:never]]",
        "first": "[[hold:stop-first]][[text:never]]",
    }
    for stage, script in stages.items():
        play.send(session_id, f"stop-{stage} {script}")
        if stage == "tool":
            play.turn("stop-tool")
            play.until(
                lambda: play.client.get(session_path(session_id, "/progress"))["last_tool"], "the tool runs"
            )
        else:
            play.hold(f"stop-{stage}")
        play.client.post(session_path(session_id, "/interrupt"))
        play.wait_status(session_id, "idle")
    return "3 of 3 ended idle"


@_contract(
    "background",
    "An agent whose background work runs is not called idle for good, and tells its end.",
    "background work may be missed: agents are not completed by their last words",
)
def _background(play: Play) -> str:
    helper = tool(
        "Agent",
        description="look",
        subagent_type="general-purpose",
        run_in_background=True,
        prompt="helper-turn [[text:x]][[hold:helper]][[text:done]]",
    )
    session_id = play.spawn("Editor", f"parent-turn {helper}[[then]][[text:so]]")
    play.hold("helper")
    _, told = play.until(
        lambda: told if "the turn ended" in (told := play.evidence(session_id, "hook"))[1] else None,
        "the turn that began a sub-agent ends",
    )
    status = play.session(session_id)["status"]
    expect_true_claim(status not in _ENDED, f"it was called {status} while a sub-agent worked")
    expect("sub-agents in the background: 1" in told, f"while a sub-agent worked it reported: {told}")
    play.api.release("helper")
    play.until(lambda: _helper_told(play), "the end of the sub-agent reaches the agent")
    play.wait_status(session_id, "idle")
    return "a sub-agent ran and its end reached the agent"


def _helper_told(play: Play) -> bool:
    def mentions(turn: ModelRequest) -> bool:
        return not turn.agent_id and bool(turn.tool_calls) and "done" in json.dumps(turn.body["messages"][-1])

    return any(mentions(turn) for turn in play.api.turns())


@_contract(
    "resume",
    "A restored agent and a fork keep the conversation, and are told who they are now.",
    "restored agents and forks may lack their conversation: look before you send them work",
)
def _resume(play: Play) -> str:
    session_id = play.spawn("Plain", "first-resume [[text:noted]]")
    play.turn("first-resume")
    play.wait_status(session_id, "idle")
    fork: dict[str, Any] = play.client.post(session_path(session_id, "/fork"), {"name": "copy"}, timeout_s=60)
    fork_id = str(fork["session_id"])
    play.sessions.append(fork_id)
    play.wait_status(fork_id, "idle")
    play.send(fork_id, "in-the-fork")
    request = play.turn("in-the-fork")
    expect("first-resume" in json.dumps(request.body["messages"]), "the fork has lost the conversation")
    expect(f"(session {fork_id})" in request.system, "the fork is told that it is another session")
    play.kill(session_id)
    play.wait_status(session_id, *_ENDED)
    play.client.post(session_path(session_id, "/restore"), timeout_s=60)
    play.wait_status(session_id, "idle")
    play.send(session_id, "after-restore")
    request = play.turn("after-restore")
    expect("first-resume" in json.dumps(request.body["messages"]), "it has lost its conversation")
    expect(f"(session {session_id})" in request.system, "it is told that it is another session")
    return "restored and forked with the conversation; each knows its own session"


@_contract(
    "long-call",
    "A call of a tool of sm may take long: it does not go on in the background.",
    "agents may end their turn while they wait with a tool of sm: let them run sm wait in a shell",
)
def _long_call(play: Play) -> str:
    ask = tool("mcp__sm__ask", question="Which one?", wait_s=600)
    waits = play.spawn("Plain", f"call-waits {ask}[[then]][[text:so]]")
    request = play.request(waits)
    words, seconds = current(), str(_SHORT_CALL_MS // 1000)
    short = dict.fromkeys(words.texts("environment.call_ms"), str(_SHORT_CALL_MS))
    moved = play.spawn("Plain", f"call-moved {ask}[[then]][[text:so]]", variables=short)
    play.request(moved)
    known = Known(version_in(play.session(moved)["program_version"] or ""))
    if words.choose("calls.limited", known).value is True:
        # The limit is two minutes. That a shorter one counts shows that the longer one of sm counts.
        play.until(
            lambda: any(turn.results for turn in play.turns_of(moved)),
            f"a limit of {seconds} s for calls, which sm sets to an hour, has an effect",
            2 * _SHORT_CALL_MS / 1000 + 5,
        )
    expect(not any(turn.results for turn in play.turns_of(waits)), "the call ended before it was answered")
    play.answer(request, answers=["the blue one"])
    failed, output = _tool_result(play, "call-waits")
    expect(not failed and "the blue one" in output, f"an answered call gave: {output[:100]}")
    return "a call waited until it was answered"


# Screens


@_contract(
    "screens",
    "Its screens and its title say what it does.",
    "sm may not see what a terminal shows, such as a dialog without a hook: look with sm attach",
)
def _screens(play: Play) -> str:
    seen = look_at_screens(play)
    expect(not seen.missed, f"not recognized: {'; '.join(seen.missed)}")
    return f"{seen.count} of {seen.count} recognized"


@_contract(
    "usage",
    "The tokens are counted as they were billed, and the price of the model is known.",
    "tokens and costs may be wrong: do not rely on budgets",
)
def _usage(play: Play) -> str:
    spent = TokenUsage(input=11, output=101, cache_read=1000, cache_creation=500)
    session_id = play.spawn("Plain", f"spends-tokens {usage(spent)}[[text:one]]")
    play.turn("spends-tokens")
    play.wait_status(session_id, "idle")
    expected = {"input": 11, "output": 101, "cache_read": 1000, "cache_write": 500}

    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = play.client.get(session_path(session_id, "/progress"))
        return found if found["tokens_used"] or found["tokens_partial"] else None

    progress = play.until(look, "tokens are counted")
    expect(not progress["tokens_partial"], "the tokens of an answer cannot be read, and are shown as unknown")
    counted = {name: progress["tokens"].get(name) for name in expected}
    expect_true_claim(counted == expected, f"counted {counted}, billed {expected}")
    model = play.session(session_id)["model"]
    expect(progress["cost_usd"] is not None, f"the price of its model {model} is unknown")
    return f"tokens exact; ${progress['cost_usd']:.4f} with {model}"


@_contract(
    "end",
    "After it was ended, its output can be read from its beginning and nothing of it runs.",
    "the last output may be lost: read it before sm kill",
)
def _end(play: Play) -> str:
    lines = "\n\n".join(f"spoken line {number}" for number in range(60))
    # Not in the prompt, which the terminal shows too.
    play.api.when(lambda request: f"[[text:{lines}]]" if "last-words" in request.prompt else None)
    # After a claude was killed, others of its user keep to the main screen for a while.
    session_id = play.spawn("Plain", "last-words", environment=play.other_home())
    play.turn("last-words")
    session = play.wait_status(session_id, "idle")
    play.until(
        lambda: "spoken line 59" in play.output(session_id), "its terminal shows the end of its answer"
    )
    play.kill(session_id)
    play.wait_status(session_id, *_ENDED)
    expect(read_stat(session["pid"]) is None, f"its process {session['pid']} still runs")
    kept = play.output(session_id, 500)
    expect("spoken line 59" in kept, "its last output is lost")
    expect("spoken line 0" in kept, "only the last screen of its output is kept")
    return "ended; 60 lines of its output are kept"
