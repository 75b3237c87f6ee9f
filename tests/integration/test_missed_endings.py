"""Ends of turns around the end of the daemon: each is read, and told exactly once.

The test plays an agent whose user has a Stop hook: the agent publishes that it works until that hook is over.
"""

import os
import random
import re
import threading
from collections import Counter
from functools import partial

import pytest

from tests.instance import until
from tests.integration.played_claude import BOX, Agent, Stage
from tests.turns import begin_turn, leave_turn, notices, told

LONG = os.environ.get("SM_LONG") == "1"
SEED = int(os.environ.get("SM_SEED", "1"))
SETTINGS = """
child_agents: {auto_complete: {completion_quiet_s: 0.2, idle_timeout: 1000}}
daemon: {ignore_evidence: [screen, title]}
"""


@pytest.mark.timeout(1500 if LONG else 300)
@pytest.mark.parametrize("part", range(4 if LONG else 1))
def test_every_end_of_a_turn_is_told_once_when_the_daemon_is_killed_around_it(part: int) -> None:
    """Each round kills the daemon at a random moment around the ends of turns; 4 x 50 rounds with SM_LONG=1."""
    rounds, dice = 50 if LONG else 6, random.Random(SEED + part)
    kinds = {
        "done": "Done. I fixed the login page and all tests pass (part {n}).",
        "question": "I read the code. Which of the two databases should I use for part {n}?",
        "failed": "I could not finish part {n}: the build fails with 14 errors.",
    }
    with Stage(SETTINGS, BOX) as stage:
        agents = {kind: stage.agent() for kind in kinds}
        for agent in agents.values():
            begin_turn(agent)
        for number in range(rounds):
            moment_s = dice.uniform(0, 0.3)
            killing = threading.Timer(moment_s, stage.kill_daemon)
            killing.start()
            for kind, agent in agents.items():
                text = kinds[kind].format(n=number)
                agent.append_turn(text)
                agent.begin_event("Stop", last_assistant_message=text)
                if dice.random() < 0.5:  # otherwise the user's hook lasts longer than the daemon
                    leave_turn(agent)
            killing.join()
            for agent in agents.values():
                leave_turn(agent)
            stage.run("daemon", "start")
            for kind, agent in agents.items():
                agent.end_event()
                until(partial(_is_told, stage, agent, number), f"end {number} ({kind}) is told")
                begin_turn(agent)
        counts = Counter(text for text in notices(stage) if " part " in text or "(part " in text)
        for agent in agents.values():
            agent.end()
    wanted = rounds * len(kinds)
    print(  # noqa: T201 - shown in the output of the run
        f"\n{rounds} kills around the ends of {wanted} turns, seed {SEED + part}: {len(counts)} ends told, "
        f"{wanted - len(counts)} lost, {sum(counts.values()) - len(counts)} told twice"
    )
    assert (len(counts), set(counts.values())) == (wanted, {1})


def _is_told(stage: Stage, agent: Agent, number: int) -> bool:
    return any(re.search(rf"part {number}\b", line) for line in told(stage, agent, ""))
