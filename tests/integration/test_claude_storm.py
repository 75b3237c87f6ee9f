"""Storms of messages to real claudes: each message arrives once and unchanged, or is reported as unconfirmed."""

import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

from tests.claude_fixtures import scripted_api
from tests.claude_instance import ClaudeInstance
from tests.claude_storm import Mix, Storm, check, kill_daemon_during, run_storm, start_sessions, summary
from tests.instance import until
from tests.integration.special_texts import LONG, special_texts
from tests.scripted_api import ScriptedApi

LONG_RUN = os.environ.get("SM_LONG") == "1"
KILLS = 5

api = scripted_api("function")


@pytest.fixture
def storm(api: ScriptedApi) -> Iterator[Storm]:
    seed = int(os.environ.get("SM_SEED") or random.randrange(2**32))
    print(f"SM_SEED={seed}")  # noqa: T201 - shown when it fails
    claudes = ClaudeInstance(api)
    (claudes.work / "README.md").write_text("read me\n")
    yield Storm(claudes, api, seed)
    claudes.end()


@pytest.mark.timeout(300)
def test_messages_of_any_text_arrive_exactly_once_at_any_time(
    storm: Storm, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = start_sessions(storm, 2)
    run_storm(storm, [*pids], Mix(idle=6, busy=10, urgent=1, dialogs=3, odd=[*special_texts()]))
    messages = check(storm, pids)
    with capsys.disabled():
        print(summary(storm, messages))  # noqa: T201 - shown in the output of the run
    states = Counter(message["status"] for message in messages.values())
    assert storm.dialogs.total() == 3
    assert states["unconfirmed"] <= 1

    # A message held at a dialog names the dialog, and fails when its session is killed.
    session_id = next(iter(pids))
    name, request = storm.ask(session_id, "left", [], "leave")
    assert request
    held = storm.send(session_id, "left", ("later", "later"))
    waits = until(
        lambda: "dialog" in (storm.fetch(held)["reason"] or "") and storm.fetch(held), "the message is held"
    )
    assert (waits["status"], request in waits["reason"]) == ("queued", True), waits
    storm.claudes.sm("kill", session_id)
    ended = storm.fetch(held)
    assert (ended["status"], "ended" in ended["reason"] or "killed" in ended["reason"]) == ("failed", True), (
        ended
    )
    assert not (storm.claudes.work / name).exists()
    storm.conversations()


@pytest.mark.timeout(300)
def test_messages_arrive_once_or_are_unconfirmed_when_the_daemon_is_killed_three_times(
    storm: Storm, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = start_sessions(storm, 2)
    with kill_daemon_during(storm, 50, kills := 3):
        run_storm(storm, [*pids], Mix(idle=10, busy=20, urgent=1, dialogs=3, odd=[]))
    messages = check(storm, pids)
    with capsys.disabled():
        print(summary(storm, messages))  # noqa: T201 - shown in the output of the run
    assert storm.kills == kills
    assert Counter(message["status"] for message in messages.values())["unconfirmed"] <= len(pids) * kills


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [0, KILLS])
@pytest.mark.skipif(not LONG_RUN, reason="takes minutes: SM_LONG=1 runs it")
def test_500_messages_arrive_at_most_once_with_and_without_daemon_kills(
    storm: Storm, capsys: pytest.CaptureFixture[str], kills: int
) -> None:
    pids = start_sessions(storm, 3)
    texts = [text for text in special_texts() if text[0] not in LONG]
    odd = [*special_texts(), *islice(texts, 100)][:100]
    with kill_daemon_during(storm, 500, kills):
        run_storm(storm, [*pids], Mix(idle=200, busy=150, urgent=5, dialogs=10, odd=odd))
    messages = check(storm, pids)
    with capsys.disabled():
        print(summary(storm, messages))  # noqa: T201 - shown in the output of the run
    states = Counter(message["status"] for message in messages.values())
    assert len(messages) >= 500
    assert storm.kills == kills
    assert states["unconfirmed"] <= (len(pids) * kills or 5)
