"""Teams of sandboxed agents that lose their container or the engine: each child comes back under its parent."""

import signal
from collections import Counter
from collections.abc import Callable

import pytest

from tests.sim.containers import PlayedContainer
from tests.sim.engine import PlayedEngine
from tests.sim.sandbox_stage import SandboxInstance, open_instance, processes_of
from tests.sim.stage import until

Parents = dict[str, str | None]


def spawn_team(instance: SandboxInstance, mode: str = "sandboxed") -> Parents:
    """The parent of each session of a team, by session: a lead, two children, and a child of the first.

    `mode`: of the lead. The others are sandboxed.
    """

    def spawn(*options: str) -> str:
        session_id: str = instance.spawn("Sleeper", "x", "--workspace", "shop", *options)["session_id"]
        return session_id

    lead = spawn("--trust", mode)
    first, second = (spawn("--parent", lead, "--trust", "sandboxed") for _ in range(2))
    return {lead: None, first: lead, second: lead, spawn("--parent", first): first}


def pids_of(instance: SandboxInstance, parents: Parents) -> dict[str, int]:
    return {session_id: instance.session(session_id)["pid"] for session_id in parents}


def wait_for_ends(instance: SandboxInstance, parents: Parents) -> None:
    for session_id in parents:
        assert instance.ended(session_id)["status"] == "error"


def parents_of(instance: SandboxInstance, parents: Parents) -> Parents:
    return {session_id: instance.session(session_id)["parent_session_id"] for session_id in parents}


def lines_to(instance: SandboxInstance, session_id: str, part: str) -> Counter[str]:
    """The lines of sm's own messages to a session that hold `part`."""
    texts = [m["text"] for m in instance.json("log", session_id) if m["from"] == "sm"]
    return Counter(line for text in texts for line in text.split("\n") if part in line)


def assert_restored(instance: SandboxInstance, parents: Parents, before: dict[str, int]) -> None:
    """Assert that each session runs again under its parent, and that each end and each restore was told once."""

    def run() -> bool:
        sessions = [instance.session(session_id) for session_id in parents]
        return all(
            s["status"] == "running" and s["pid"] not in (None, before[s["session_id"]]) for s in sessions
        )

    until(run, "all sessions run again")
    until(lambda: parents_of(instance, parents) == parents, "each session has its parent")
    for session_id, pid in pids_of(instance, parents).items():
        assert processes_of(session_id) == [pid]
        assert [e["type"] for e in instance.events(session_id) if e["session_id"] == session_id].count(
            "error"
        ) == 1
    for session_id, parent in parents.items():
        words = f"({session_id}) was restored"
        if parent is not None:
            until(lambda parent=parent, words=words: lines_to(instance, parent, words), "the parent is told")  # type: ignore[misc]  # defaults bind the loop's values
            assert lines_to(instance, parent, words).total() == 1
        others = [other for other in parents if other not in (parent, session_id)]
        assert not any(
            lines_to(instance, other, f"({session_id}) was restored, and is your child as before")
            for other in others
        )
    [message] = instance.json("inbox")
    for session_id in parents:
        assert message["text"].count(f"({session_id}) ended with an error") == 1


# ------------------------------------------------------------------------------------------------- the container


def kill_container(engine: PlayedEngine, container: PlayedContainer) -> None:
    engine.kill_container(container)


def remove_container(engine: PlayedEngine, container: PlayedContainer) -> None:
    engine.remove(container)


def stop_container(engine: PlayedEngine, container: PlayedContainer) -> None:
    engine.kill_container(container, signal.SIGTERM)


@pytest.mark.parametrize(
    ("lose", "command", "has_daemon"),
    [
        (kill_container, "--all --continue", True),
        (kill_container, "LEAD --tree", True),
        (remove_container, "--all --continue", True),
        (stop_container, "LEAD --tree", True),
        (kill_container, "--all --continue", False),
        (remove_container, "LEAD --tree", False),
    ],
)
def test_team_that_lost_its_container_is_restored_as_it_was(
    lose: Callable[[PlayedEngine, PlayedContainer], None], command: str, has_daemon: bool
) -> None:
    instance = open_instance()
    try:
        parents = spawn_team(instance)
        lead, before = next(iter(parents)), pids_of(instance, parents)
        [container] = instance.containers
        if not has_daemon:
            instance.kill_daemon()
        lose(instance.engine, container)
        if not has_daemon:
            until(lambda: not any(map(processes_of, parents)), "the agents have ended")
            instance.start_daemon()
        wait_for_ends(instance, parents)
        assert parents_of(instance, parents) == parents
        for session_id in parents:
            session = instance.session(session_id)
            assert session["status_reason"] == "the container ended, and the agent with it"
            assert session["exit_signal"] == 9
        instance.sm("restore", *command.replace("LEAD", lead).split())
        assert_restored(instance, parents, before)
    finally:
        instance.end()


def test_lead_that_is_restored_alone_is_told_whom_the_container_took_with_it() -> None:
    instance = open_instance()
    try:
        parents = spawn_team(instance)
        lead, first, second, below = parents
        instance.engine.kill_container(instance.containers[0])
        wait_for_ends(instance, parents)
        shown = instance.sm("restore", lead)
        assert f"Not restored: 3 descendants that ended with sleeper-{lead}" in shown
        assert f"sm restore {lead} --tree" in shown
        assert all(session_id in shown for session_id in (first, second, below))
        until(
            lambda: lines_to(instance, lead, "is not restored").total() == 2,
            "the lead is told of its children",
        )
        assert f"({first}) ended with you and is not restored: sm restore {first}" in "".join(
            lines_to(instance, lead, "is not restored")
        )
        assert [instance.session(s)["status"] for s in (first, second, below)] == ["error"] * 3
        assert instance.json("restore", first)["left"][0]["session_id"] == below
        assert instance.sm("restore", second, below).count("\n") == 2
        assert parents_of(instance, parents) == parents
    finally:
        instance.end()


# ----------------------------------------------------------------------------------------------------- the engine


def restart_engine(engine: PlayedEngine, instance: SandboxInstance, parents: Parents) -> None:
    engine.kill()
    engine.start()


def restart_engine_and_daemon(engine: PlayedEngine, instance: SandboxInstance, parents: Parents) -> None:
    engine.kill()
    instance.kill_daemon()
    engine.start()
    instance.start_daemon()


@pytest.mark.parametrize("live_restore", [True, False])
@pytest.mark.parametrize("restart", [restart_engine, restart_engine_and_daemon])
@pytest.mark.parametrize("on_restart", ["restore", "end"])
def test_team_that_lost_its_engine_is_restored_as_it_was(
    live_restore: bool,
    restart: Callable[[PlayedEngine, SandboxInstance, Parents], None],
    on_restart: str,
) -> None:
    instance = open_instance(f", on_engine_restart: {on_restart}")
    instance.engine.is_live_restoring = live_restore
    try:
        parents = spawn_team(instance)
        before = pids_of(instance, parents)
        restart(instance.engine, instance, parents)
        if on_restart == "end":
            wait_for_ends(instance, parents)
            assert parents_of(instance, parents) == parents
            instance.sm("restore", "--all", "--continue")
        assert_restored(instance, parents, before)
    finally:
        instance.end()


def test_lead_on_this_host_is_told_once_of_the_ends_and_the_restores_of_its_sandboxed_children() -> None:
    instance = open_instance()
    try:
        parents = spawn_team(instance, "direct")
        lead, first, second, below = parents
        instance.engine.kill()
        instance.engine.start()
        for session_id in (first, second):
            for part in (f"({session_id}) ended with an error", f"({session_id}) was restored"):
                until(lambda part=part: lines_to(instance, lead, part), f"the lead is told: {part}")  # type: ignore[misc]  # a default binds the loop's value
                assert lines_to(instance, lead, part).total() == 1
        until(lambda: parents_of(instance, parents) == parents, "each session has its parent")
        until(lambda: lines_to(instance, first, f"({below}) was restored"), "the child is told of its child")
        assert instance.session(lead)["status"] == "running"
    finally:
        instance.end()
