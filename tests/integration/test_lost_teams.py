"""Teams whose agents end by one loss: a reboot, or the end of the tmux server. A restore puts each one back."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from tests.earlier_boot import set_earlier_boot
from tests.fixtures import context_fixture
from tests.instance import Instance, until
from tests.integration.ended_agents import gone, tmux_server

LONG = os.environ.get("SM_LONG") == "1"
TREES, WIDTH = (4, 2) if LONG else (2, 1)
"""Each tree has a lead, `WIDTH` children, and one child of each of these."""

instance = context_fixture("function", Instance, "budgets: {grace_s: 60}")


def spawn_trees(instance: Instance) -> dict[str, str | None]:
    """The parent of each session, by session; the leads come first."""
    leads = [instance.spawn("Sleeper", "--budget", "usd=50")["session_id"] for _ in range(TREES)]
    parents: dict[str, str | None] = dict.fromkeys(leads)
    for lead in leads:
        for _ in range(WIDTH):
            child = instance.spawn("Sleeper", "--parent", lead)["session_id"]
            parents[child] = lead
            parents[instance.spawn("Sleeper", "--parent", child)["session_id"]] = child
    return parents


def reboot(instance: Instance, pids: list[int]) -> None:
    instance.kill_daemon()
    instance.tmux("kill-server")
    until(lambda: all(map(gone, pids)), "all agents are gone")
    set_earlier_boot(instance.state)
    instance.run("daemon", "start")


def lose_server(instance: Instance, pids: list[int]) -> None:
    os.kill(tmux_server(instance), signal.SIGKILL)
    until(lambda: all(map(gone, pids)), "all agents are gone")


def lose_server_without_daemon(instance: Instance, pids: list[int]) -> None:
    server = tmux_server(instance)
    instance.kill_daemon()
    os.kill(server, signal.SIGKILL)
    until(lambda: all(map(gone, pids)), "all agents are gone")
    instance.run("daemon", "start")


def told(instance: Instance, lead: str) -> Counter[str]:
    texts = [m["text"] for m in instance.get("/v1/messages", session=lead) if m["from"] == "sm"]
    return Counter(line for text in texts for line in text.split("\n") if "restored" in line)


def told_of(instance: Instance, parent: str, child: str) -> Counter[str]:
    lines = told(instance, parent).items()
    return Counter({line: count for line, count in lines if f"({child})" in line})


@pytest.mark.parametrize("lose", [reboot, lose_server, lose_server_without_daemon])
def test_teams_that_a_loss_ended_are_restored_as_they_were(
    instance: Instance, lose: Callable[[Instance, list[int]], None]
) -> None:
    parents = spawn_trees(instance)
    lose(instance, [instance.session(s)["pid"] for s in parents])
    for session_id in parents:
        assert instance.ended(session_id)["status"] == "error"
    assert {s: instance.session(s)["parent_session_id"] for s in parents} == parents
    instance.sm("restore", "--all", "--continue")
    sessions = {s: instance.session(s) for s in parents}
    assert {s: found["status"] for s, found in sessions.items()} == dict.fromkeys(parents, "running")
    assert {s: found["parent_session_id"] for s, found in sessions.items()} == parents
    for session_id, parent in parents.items():
        if parent is None:
            continue
        until(partial(told_of, instance, parent, session_id), "the parent is told of its child")
        assert list(told_of(instance, parent, session_id).values()) == [1]
    leads = [s for s, parent in parents.items() if parent is None]
    assert {len(told(instance, lead)) for lead in leads} == {WIDTH}
    budgets = {instance.json("budget", s)["budget"] is not None for s in leads}
    assert budgets == {True}
    back = sum(sessions[s]["parent_session_id"] == parents[s] for s in parents)
    print(f"\n{lose.__name__}: {back} of {len(parents)} agents in {TREES} trees are where they were")  # noqa: T201


def test_parent_that_restores_its_child_is_not_told_of_it(instance: Instance) -> None:
    parents = spawn_trees(instance)
    lose_server(instance, [instance.session(s)["pid"] for s in parents])
    for session_id in parents:
        instance.ended(session_id)
    lead, child = next((p, s) for s, p in parents.items() if p is not None and parents[p] is None)
    instance.sm("restore", lead)
    instance.sm("restore", child, env=instance.as_session(lead))
    other = instance.spawn("Sleeper", "--parent", lead)["session_id"]
    instance.sm("kill", other)
    until(
        lambda: [m for m in instance.get("/v1/messages", session=lead) if other in m["text"]],
        "a later notice has come",
    )
    # That the child stays ended may have been told before.
    assert [line for line in told(instance, lead) if "was restored" in line] == []


def test_child_that_is_restored_without_its_parent_comes_back_with_it(instance: Instance) -> None:
    parents = spawn_trees(instance)
    lose_server(instance, [instance.session(s)["pid"] for s in parents])
    for session_id in parents:
        instance.ended(session_id)
    lead, child = next((p, s) for s, p in parents.items() if p is not None and parents[p] is None)
    instance.sm("restore", child)
    assert instance.session(child)["parent_session_id"] is None
    instance.sm("restore", lead)
    assert instance.session(child)["parent_session_id"] == lead
    until(lambda: told(instance, lead), "the parent is told")
    assert [count for line, count in told(instance, lead).items() if child in line] == [1]


def test_lead_that_is_restored_alone_and_its_operator_are_told_who_stays_ended(instance: Instance) -> None:
    parents = spawn_trees(instance)
    crashed = instance.spawn("Sleeper", "--parent", next(iter(parents)))["session_id"]
    instance.sm("kill", crashed)
    lose_server(instance, [instance.session(s)["pid"] for s in parents])
    for session_id in parents:
        instance.ended(session_id)
    lead, child = next((p, s) for s, p in parents.items() if p is not None and parents[p] is None)
    below = next(s for s, parent in parents.items() if parent == child)
    shown = instance.sm("restore", lead).splitlines()
    children = [s for s, parent in parents.items() if parent == lead]
    grandchildren = [s for s, parent in parents.items() if parent in children]
    names = [f"sleeper-{s}" for s in (*children, *grandchildren)]  # the nearest first
    count = f"{len(names)} descendants that ended with sleeper-{lead}"
    assert shown[1:] == [f"Not restored: {count} ({', '.join(names)}): sm restore {lead} --tree"]
    left = f"child sleeper-{child} ({child}) ended with you and is not restored: sm restore {child}"
    until(lambda: told(instance, lead)[left] == 1, "the lead is told")
    assert [s["session_id"] for s in instance.json("restore", child)["left"]] == [below]
    back = f"child sleeper-{child} ({child}) was restored, and is your child as before"
    until(lambda: told(instance, lead)[back] == 1, "the lead is told of the restore")
    assert "descendants" not in instance.sm("restore", "--all")
    assert crashed not in "".join(told(instance, lead))
