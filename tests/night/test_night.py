"""A night of twenty agents whose daemon is killed again and again: it tells each thing once, as without kills."""

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.night.script import (
    AGENTS,
    ASKERS,
    BUDGETS,
    CRASHERS,
    LIMITED,
    Act,
    script,
)

LONG = os.environ.get("SM_LONG") == "1"
KILLS = 100 if LONG else 12
SEEDS = (1, 2, 3) if LONG else (1,)
REPOSITORY = Path(__file__).parents[2]
Night = dict[str, list[Any]]


async def played(directory: Path, seed: int, kills: int = 0, ticks: int = 0) -> tuple[Night, dict[str, int]]:
    """Play the night in a process of its own. Returns what is left in the morning, and the kills and the ticks."""
    directory.mkdir()
    command = (sys.executable, "-m", "tests.night", str(directory), str(seed), str(kills), str(ticks))
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=REPOSITORY,
        env={**os.environ, "TZ": "UTC"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (0, "")  # a failed timer is in the log
    return json.loads((directory / "night.json").read_text()), json.loads(output)


def without_ages(night: Night) -> Night:
    """The night without the measured ages in texts of warnings: a new daemon looks at other seconds."""
    notices = [[*row[:3], None if row[2] == "warning" else row[3]] for row in night["notices"]]
    events = [[*row[:5], None if row[2] == "no_progress" else row[5]] for row in night["events"]]
    return {
        **{name: rows for name, rows in night.items() if name != "digest"},
        "notices": notices,
        "events": events,
    }


def assert_complete(night: Night, seed: int) -> None:
    """Everything that happened in the script was told once, and is in the digest."""
    entries = script(seed)
    statuses = {agent: status for agent, status, _ in night["sessions"]}
    ended = {agent for agent, status in statuses.items() if status in ("completed", "error")}
    completing = {entry.agent for entry in entries if entry.act is Act.COMPLETE}
    assert ended == {*completing, *CRASHERS[:2]}
    endings = Counter(agent for agent, type, *_ in night["events"] if type in ("completed", "error"))
    assert endings == Counter(ended)
    told = Counter((agent, kind) for agent, _, kind, _ in night["notices"])
    assert {agent: told[agent, "ending"] for agent in ended} == dict.fromkeys(ended, 1)

    questions = [row for row in night["requests"] if row[1] == "question"]
    assert [agent for agent, *_ in questions] == list(ASKERS)
    requests = Counter(agent for agent, *_ in night["requests"])
    assert {agent: told[agent, "request"] for agent in requests} == dict(requests)

    for agent in BUDGETS:
        states = [row[4] for row in night["events"] if row[0] == agent and row[1] == "budget"]
        reached = ["soft", "grace", "ok", "soft", "grace"] if agent == BUDGETS[0] else ["soft", "grace"]
        assert states == reached
        assert told[agent, "budget"] == len([state for state in states if state != "ok"])

    limits = Counter(row[0] for row in night["events"] if row[1] == "warning" and row[2] is None)
    assert limits == Counter(LIMITED[:2])

    crashes = Counter(row[0] for row in night["events"] if row[2] == "crash_loop" and row[3] != 1)
    assert crashes == Counter(dict.fromkeys(CRASHERS, 3))

    digests = [row for row in night["messages"] if row[0] is None]
    assert len(digests) == 1  # at 06:30
    assert night["named"] == sorted(AGENTS)
    assert sorted(row[0] for row in night["digest_requests"]) == sorted([ASKERS[3], BUDGETS[0]])
    assert night["digest_budgets"] == [
        [BUDGETS[0], "tokens 2k of 2k, it is spent"],
        [BUDGETS[1], "tokens 1k of 1k, it is spent"],
    ]
    assert {(agent, "crash_loop") for agent in CRASHERS} <= {tuple(row) for row in night["digest_warnings"]}
    assert [ASKERS[3], "unanswered"] in night["digest_warnings"]
    assert len(night["digest"]) <= 40


@pytest.mark.processes
@pytest.mark.timeout(3600 if LONG else 600)
@pytest.mark.parametrize("seed", SEEDS)
async def test_night_tells_each_thing_once_when_daemon_is_killed_at_random_moments(
    tmp_path: Path, seed: int
) -> None:
    calm, counts = await played(tmp_path / "calm", seed)
    assert_complete(calm, seed)
    killed, found = await played(tmp_path / "killed", seed, KILLS, counts["ticks"])
    assert found["kills"] >= KILLS + len(Act)
    assert_complete(killed, seed)
    expected = without_ages(calm)
    assert {name: rows for name, rows in without_ages(killed).items() if rows != expected[name]} == {}
