"""Endings that sm detects in the last messages of turns, while daemons are killed. The test plays the hooks."""

import os
import random
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial

import pytest

from tests.instance import until
from tests.integration.played_claude import BOX, Agent, Stage
from tests.turns import notices, turn

LONG = os.environ.get("SM_LONG") == "1"
SEED = int(os.environ.get("SM_SEED", "1"))
SETTINGS = """
child_agents:
  auto_complete: {{completion_quiet_s: {quiet_s}, idle_timeout: 1}}
daemon: {{ignore_evidence: [screen, title]}}
"""
QUICK = SETTINGS.format(quiet_s=0.2)
TEXTS = {
    "done": "Done. I fixed the login page and all tests pass (part {n}).",
    "question": "I read the code. Which of the two databases should I use for part {n}?",
    "unclear": "Reading part {n}.",
}


@contextmanager
def killed(stage: Stage, times: int, dice: random.Random) -> Iterator[None]:
    """Kill and restart the daemon `times` times at random moments, until the block ends or all kills are done."""
    over = threading.Event()

    def kill() -> None:
        for _ in range(times):
            over.wait(dice.uniform(0.05, 0.8))
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
    """Play `turns` turns of each agent under kills. Returns the notices about turns, with the agents' numbers."""
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
            )

    with killed(stage, kills, dice), ThreadPoolExecutor(len(agents)) as pool:
        list(pool.map(run, range(len(agents))))
    numbers = {agent.id: f"agent {number}" for number, agent in enumerate(agents)}
    # Not the warnings that depend on how long the run takes.
    texts = [t for t in notices(stage) if "part " in t and any(agent.id in t for agent in agents)]
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
