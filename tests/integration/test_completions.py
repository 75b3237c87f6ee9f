"""Endings that sm detects in the last messages of turns, also while daemons are killed. The test plays the hooks."""

import os
import random
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest

from tests.fixtures import context_fixture
from tests.instance import until
from tests.integration.played_claude import BOX, Agent, Stage
from tests.load import scaled
from tests.turns import notices, told

LONG = os.environ.get("SM_LONG") == "1"
SEED = int(os.environ.get("SM_SEED", "1"))
SETTINGS = """
child_agents:
  auto_complete: {{completion_quiet_s: {quiet_s}, idle_timeout: 1}}
daemon: {{ignore_evidence: [screen, title]}}
"""
QUICK = SETTINGS.format(quiet_s=0.2)
DONE = "Done. All 26 tests pass."
TEXTS = {
    "done": "Done. I fixed the login page and all tests pass (part {n}).",
    "question": "I read the code. Which of the two databases should I use for part {n}?",
    "unclear": "Reading part {n}.",
}

stage = context_fixture("module", Stage, QUICK, BOX)


def turn(agent: Agent, text: str, prompt: str = "go on") -> None:
    """Play a whole turn that ends with `text`."""
    agent.send_event("UserPromptSubmit", prompt=prompt, prompt_id=os.urandom(4).hex())
    agent.send_event("Stop", last_assistant_message=text)


def status(stage: Stage, agent: Agent) -> dict[str, Any]:
    return stage.session(agent.id)


def completed(stage: Stage, agent: Agent) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        session = status(stage, agent)
        return session if session["status"] == "completed" else None

    return until(look, "sm completes the session")


def open_request(stage: Stage, agent: Agent, kind: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = [r for r in stage.json("requests") if r["session_id"] == agent.id and r["kind"] == kind]
        return found[0] if found else None

    return until(look, f"a request of kind {kind}")


def terminal_of(stage: Stage, agent: Agent) -> bool:
    return f"claude-{agent.id}" in stage.tmux("list-sessions", "-F", "#{session_name}").split()


def test_auto_mode_completes_a_session_that_says_done_and_tells_its_parent(stage: Stage) -> None:
    """Seed 003, Auto Mode, example flow. The transcript is archived when the process ends, not before."""
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    child = stage.agent("Plain", "--parent", parent)
    text = "Done. All tests passing."
    turn(child, text)
    done = completed(stage, child)
    assert (done["status_source"], done["completion_message"], done["mode"]) == ("completion", text, "auto")
    assert told(stage, child, "completed") == [f'child plain-{child.id} ({child.id}) completed: "{text}"']
    until(lambda: stage.json("log", parent), "the parent gets a message")
    (event,) = [e for e in stage.events(child.id) if e["type"] == "completed"]
    assert event["message"] == f'Child {child.id} completed - "{text}"'
    assert f'completed: Child {child.id} completed - "{text}"' in stage.sm("events", parent)
    (line,) = stage.sm("children", parent).splitlines()
    assert re.fullmatch(rf'plain-{child.id} \({child.id}\) \| completed \| .* ago \| "{text}"', line)
    assert done["pid"] is not None
    assert terminal_of(stage, child)
    stage.sm("kill", child.id)
    until((stage.state / "archives" / child.id / "terminal.txt").exists, "its output is archived")


def test_manual_mode_detects_nothing_and_the_parent_kills(stage: Stage) -> None:
    """Seed 003, Manual Mode, example flow."""
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    as_parent = stage.as_session(parent)
    child = stage.agent("Plain", "--lifecycle", "manual", env=as_parent)
    turn(child, DONE)
    other = stage.agent("Plain")  # its completion shows that the time of the first one has passed
    turn(other, DONE)
    completed(stage, other)
    assert status(stage, child)["status"] == "idle"
    progress = stage.sm("progress", child.id, env=as_parent)
    assert progress.startswith(f"plain-{child.id} ({child.id}) | idle | ")
    assert stage.json("progress", child.id, env=as_parent)["is_complete"] is False
    assert terminal_of(stage, child)
    stage.sm("kill", child.id, env=as_parent)
    assert status(stage, child)["status"] == "killed"
    assert told(stage, child, "completed") == []


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_supervised_mode_asks_the_parent_who_approves_or_rejects(stage: Stage, answer: str) -> None:
    """Seed 003, Supervised Mode, example flow. The notice ends with the commands to type."""
    parent = stage.spawn("Sh", "sleep 1000")["session_id"]
    as_parent = stage.as_session(parent)
    child = stage.agent("Plain", "--lifecycle", "supervised", env=as_parent)
    turn(child, DONE)
    request = open_request(stage, child, "completion")
    assert (request["evidence"], status(stage, child)["status"]) == ("completion", "idle")
    proposed = f'child plain-{child.id} ({child.id}) proposes its completion: "{DONE}"; '
    assert told(stage, child, "") == [f"{proposed}answer with: sm approve rN, or: sm deny rN WHY"]
    if answer == "approve":
        stage.sm("approve", child.id, env=as_parent)
        assert completed(stage, child)["completion_message"] == DONE
        return
    assert stage.sm("reject", child.id, "also run the linter", env=as_parent).startswith("Denied")
    message = until(lambda: stage.json("log", child.id), "the agent gets the reason")[-1]
    assert "also run the linter" in message["text"]
    assert status(stage, child)["status"] == "idle"
    # The stand-in draws no pasted text: this hook takes the message, without which sm would look for it for a minute.
    prompt = f"[sm] from sh-{parent} ({parent}), message {message['message_id']}\n{message['text']}"
    turn(child, f"{DONE} The linter too.", prompt)
    open_request(stage, child, "completion")
    stage.sm("approve", child.id, env=as_parent)
    assert completed(stage, child)["completion_message"] == f"{DONE} The linter too."


# ------------------------------------------------------------------------------------------------------ modes


# ------------------------------------------------------------------------------------- questions, quiet window


# ---------------------------------------------------------------------------------------------- kill -9, often


@contextmanager
def killed(stage: Stage, times: int, dice: random.Random) -> Iterator[None]:
    """Kill and restart the daemon `times` times at random moments, until the block ends or all kills are done."""
    over = threading.Event()

    def kill() -> None:
        for _ in range(times):
            over.wait(scaled(dice.uniform(0.05, 0.8)))  # a busy daemon needs longer to answer any hook
            stage.kill_daemon()
            stage.run("daemon", "start")

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
        thread.join()
    finally:
        over.set()
        thread.join()


def play(stage: Stage, agents: list[Agent], turns: int, kills: int, seed: int) -> Counter[str]:
    """Play `turns` turns of each agent under kills of the daemon. Returns all notices, with the agents' numbers."""
    dice = random.Random(seed)
    scripts = [[dice.choice(sorted(TEXTS)) for _ in range(turns)] for _ in agents]

    def run(number: int) -> None:
        agent = agents[number]
        for n, kind in enumerate(scripts[number]):
            text = TEXTS[kind].format(n=n)
            turn(agent, text)
            until(
                partial(is_told, stage, agent, n, reports=2 if kind == "unclear" else 1),
                f"{text} is told",
                60,
            )

    with killed(stage, kills, dice), ThreadPoolExecutor(len(agents)) as pool:
        list(pool.map(run, range(len(agents))))
    numbers = {agent.id: f"agent {number}" for number, agent in enumerate(agents)}
    texts = [text for text in notices(stage) if any(agent.id in text for agent in agents)]
    return Counter(re.sub("|".join(numbers), lambda found: numbers[found[0]], text) for text in texts)


def is_told(stage: Stage, agent: Agent, number: int, *, reports: int) -> bool:
    """True once that many reports about the turn are stored: an unclear one is reported again after a timeout."""
    with closing(sqlite3.connect(stage.state / "sm.db", timeout=60)) as db:
        rows = db.execute("SELECT text FROM notices WHERE session_id = ?", (agent.id,)).fetchall()
    return sum(re.search(rf"part {number}\b", text) is not None for (text,) in rows) >= reports


@pytest.mark.timeout(900 if LONG else 200)
def test_endings_are_told_exactly_once_when_the_daemon_is_killed() -> None:
    """The same list of reports with and without kills; 200 endings and 50 kills with SM_LONG=1."""
    count, turns, kills = (10, 20, 50) if LONG else (3, 4, 4)
    told_by = []
    for number in (0, kills):
        with Stage(QUICK, BOX) as stage:
            agents = [stage.agent() for _ in range(count)]
            told_by.append(play(stage, agents, turns, number, SEED))
            for agent in agents:
                agent.end()
    calm, stormy = told_by
    print(  # noqa: T201 - shown in the output of the run
        f"\n{count * turns} endings, {kills} kills, seed {SEED}: {sum(stormy.values())} reports "
        f"({sum(calm.values())} without kills), {sum((stormy - calm).values())} doubled or wrong, "
        f"{sum((calm - stormy).values())} lost"
    )
    assert stormy == calm
    assert sum(calm.values()) >= count * turns
    assert set(calm.values()) == {1}


# ------------------------------------------------------------------------------- facts of the turn


FAILURES = (
    "The job died after 3 minutes.",
    "I removed the old flag and rolled it back.",
    "Every edit is refused by the sandbox.",
    "No lo he conseguido.",
    "I removed the flag.",
)
"""Final messages of turns whose last tools failed. The last one only claims a piece of work."""


def failing_turn(agent: Agent, text: str, *, restart: Callable[[], object] | None = None) -> None:
    """Play a turn with two tools that fail, in hooks and in the transcript, and its final message."""
    agent.send_event("UserPromptSubmit", prompt="Remove the flag", prompt_id=os.urandom(4).hex())
    agent.write_prompt("Remove the flag")
    for number in (1, 2):
        use = {
            "tool_name": "Bash",
            "tool_use_id": f"toolu_{agent.id}{number}",
            "tool_input": {"command": "make"},
        }
        agent.send_event("PreToolUse", **use)
        block = {"type": "tool_use", "id": use["tool_use_id"], "name": "Bash", "input": {"command": "make"}}
        message = {"id": f"m{agent.id}{number}", "model": "claude-opus-4-8", "content": [block]}
        agent.write_message(message)
        agent.send_event("PostToolUseFailure", **use)
        agent.write_tool_result(str(use["tool_use_id"]), "make: *** failed", is_error=True)
    if restart is not None:
        restart()
    agent.send_event("Stop", last_assistant_message=text)


@pytest.mark.parametrize("restarts", [False, True], ids=["", "daemon restarts in the turn"])
def test_turn_whose_tools_failed_and_that_reports_a_failure_is_not_completed(
    stage: Stage, restarts: bool
) -> None:
    agents = [stage.agent("Plain") for _ in FAILURES]
    for agent, text in zip(agents, FAILURES, strict=True):
        failing_turn(agent, text, restart=partial(stage.sm, "daemon", "restart") if restarts else None)
    after = stage.agent("Plain")
    turn(after, DONE)
    completed(stage, after)  # its whole quiet window has passed, and that of the others before it
    assert [status(stage, agent)["status"] for agent in agents] == ["idle"] * len(agents)
