"""Faults of one sandboxed session or of one container: its sessions are told once, and all others go on."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.paths import InstancePaths
from tests.engine import EngineProcess
from tests.instance import SM, Instance
from tests.integration.test_sandbox import (
    OWNER,
    all_containers,
    open_instance,
    processes_of,
    read_later,
)
from tests.waits import until

SMALL = ", memory: 512m, memory_reservation: 128m, pids: 128, scratch: 1m"


@pytest.fixture(scope="module")
def small(engine: str, sandbox_image: str) -> Iterator[Instance]:
    """Containers with the smallest limits, and a second workspace."""
    instance = open_instance(engine, sandbox_image, SMALL)
    add_workspace(instance, "bank")
    yield instance
    instance.end()


BOMB = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.2)
"""


def add_workspace(instance: Instance, slug: str) -> Path:
    directory = instance.home / slug
    directory.mkdir()
    os.chown(directory, OWNER, OWNER)
    instance.sm("workspace", "create", slug, "--working-dir", str(directory))
    return directory


def sleeper(instance: Instance, workspace: str = "shop") -> str:
    return str(instance.spawn("Sleeper", "x", "--workspace", workspace)["session_id"])


def script(instance: Instance, text: str, workspace: str = "shop") -> str:
    return str(instance.spawn("Sh", text, "--workspace", workspace)["session_id"])


def goes_on(instance: Instance, *session_ids: str) -> None:
    for session_id in session_ids:
        session = instance.session(session_id)
        assert session["status"] == "running", session["status_reason"]
        assert processes_of(session_id) == [session["pid"]]


def ends_told(instance: Instance, session_id: str) -> int:
    kinds = [event["type"] for event in instance.events(session_id)]
    return sum(kinds.count(kind) for kind in ("error", "completed", "killed", "abandoned"))


# ------------------------------------------------------------------------------------------------------- limits


def test_lack_of_memory_is_named_and_ends_one_agent_only(small: Instance) -> None:
    neighbour = sleeper(small)
    greedy = script(small, "exec python3 -c 'x = bytearray(1 << 30)'")
    ended = small.ended(greedy)
    assert ended["status"] == "error"
    assert "the sandbox ran out of memory (0.5 GiB)" in ended["status_reason"]
    assert ends_told(small, greedy) == 1
    [event] = [event for event in small.events(greedy) if event["type"] == "error"]
    assert "the sandbox ran out of memory (0.5 GiB)" in event["message"]
    goes_on(small, neighbour)
    until(lambda: small.get("/v1/sandbox")["containers"][0]["last_oom"], "it is recorded")
    assert "out of memory at " in small.sm("sandbox", "status")
    goes_on(small, sleeper(small))


def test_fork_bomb_fills_its_own_container_only(small: Instance) -> None:
    (small.work / "bomb").write_text(BOMB)
    bomb = script(small, "exec python3 bomb")
    until(lambda: len(processes_of(bomb)) > 100, "the limit is near")
    refused = small.refused("spawn", "Sleeper", "x", "--workspace", "shop", exit_code=6)
    assert "sandbox busy, 1" in refused and "of 128 processes" in refused
    other = script(small, "sm checkpoint 'as ever' && exec sleep 1000", "bank")
    until(
        lambda: "as ever" in str(small.get(f"/v1/sessions/{other}/checkpoints")),
        "the other workspace reports",
    )
    small.sm("kill", bomb, "--force")
    assert small.ended(bomb)["status"] == "killed"
    assert processes_of(bomb) == []
    goes_on(small, sleeper(small), other)


def test_full_scratch_space_is_an_error_of_its_writers_only(small: Instance) -> None:
    filler = script(small, "cat /dev/zero > /scratch/$SM_SESSION_ID/x 2>err.txt; exec sleep 1000")
    assert "No space left" in read_later(small.work / "err.txt", "space")
    neighbour = script(small, "sm note 'as ever' && exec sleep 1000")
    until(lambda: small.session(neighbour)["note"] == "as ever", "another session starts and reports")
    small.sm("kill", filler)
    small.sm("rm", filler)
    later = script(small, "head -c 500000 /dev/zero > /scratch/$SM_SESSION_ID/x && exec sleep 1000")
    goes_on(small, neighbour)
    until(
        lambda: processes_of(later) == [small.session(later)["pid"]], "the removed session's files are gone"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_full_home_is_an_error_of_its_writers_only(engine: str, sandbox_image: str) -> None:
    instance = open_instance(engine, sandbox_image, "}\nclaude: {default_command: [sleep, '1000']")
    home = Path(InstancePaths(str(instance.config), str(instance.state)).sandbox("shop").home)
    home.mkdir(parents=True)
    options = f"size=64k,uid={OWNER},gid={OWNER},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(home)], check=True)
    try:
        filler = script(instance, "cat /dev/zero > $HOME/x 2>err.txt; exec sleep 1000")
        assert "No space left" in read_later(instance.work / "err.txt", "space")
        reporter = script(instance, "sm note 'as ever' && exec sleep 1000")
        until(lambda: instance.session(reporter)["note"] == "as ever", "another session starts and reports")
        # claude's own files do not fit: its start waits for room, as on a full disk of this machine.
        spawning = subprocess.Popen(
            [SM, "spawn", "general-purpose", "x", "--workspace", "shop"],
            env=instance.env, cwd=instance.work, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        full = "cannot write in the home directory of the container: No space left on device"
        until(lambda: full in (instance.state / "log/daemon.log").read_text(), "the start waits")
        goes_on(instance, filler, sleeper(instance))
        (home / "x").unlink()
        assert spawning.wait() == 0
    finally:
        instance.run("daemon", "stop", "--all")
        subprocess.run(["umount", str(home)], check=True)
        instance.end()


# ---------------------------------------------------------------------------------------- instances and daemons


def test_two_instances_share_an_engine_and_nothing_else(
    private_engine: EngineProcess, sandbox_image: str
) -> None:
    """On an engine of its own: the unused images that it removes may be stages of the builds of other tests."""
    engine = private_engine.url
    instance, other = open_instance(engine, sandbox_image), open_instance(engine, sandbox_image)
    try:
        mine, theirs = sleeper(instance), sleeper(other)
        assert len(all_containers(engine, instance)) == len(all_containers(engine, other)) == 1
        assert all_containers(engine, instance).keys() != all_containers(engine, other).keys()
        for command in (["prune", "--homes", "--images", "--yes"], ["rm", "shop", "--force"]):
            other.sm("sandbox", *command)
        other.ended(theirs)
        goes_on(instance, mine)
        theirs = sleeper(other)
        instance.sm("daemon", "stop", "--all")
        assert all_containers(engine, instance) == {}
        goes_on(other, theirs)
    finally:
        instance.end()
        other.end()
