"""Sandboxed sessions as a user sees them, on a played engine."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.paths import INSIDE_SOCKET_DIR
from tests.sim.panes import PlayedPane
from tests.sim.sandbox_stage import SandboxInstance, open_instance, processes_of
from tests.sim.stage import until


@pytest.fixture
def instance() -> Iterator[SandboxInstance]:
    with open_instance() as instance:
        yield instance


def pane_of(instance: SandboxInstance, session_id: str) -> PlayedPane:
    return instance.world.server.panes[instance.session(session_id)["tmux_session"]]


def test_twenty_spawns_share_one_container(instance: SandboxInstance) -> None:
    started = instance.json("spawn", "Sleeper", "--workspace", "shop")
    for _ in range(19):
        instance.spawn("Sleeper", "x", "--workspace", "shop")
    assert len(instance.containers) == 1
    assert started["effective_mode"] == "sandboxed"


def test_reports_from_inside_reach_the_daemon(instance: SandboxInstance) -> None:
    script = 'sm checkpoint "half way"; sm complete "all done"; sleep 1000'
    session = instance.spawn("Sh", script, "--workspace", "shop")
    done = instance.in_status(session["session_id"], "completed")
    assert "all done" in json.dumps(done)


def test_exit_codes_and_signals_are_told(instance: SandboxInstance) -> None:
    coded = instance.spawn("Sh", "sleep 0.5; exit 7", "--workspace", "shop")
    assert "exit code 7" in instance.ended(coded["session_id"])["status_reason"]
    killed = instance.spawn("Sleeper", "x", "--workspace", "shop")
    instance.world.kernel.kill(instance.session(killed["session_id"])["pid"], signal.SIGKILL)
    assert "signal 9" in instance.ended(killed["session_id"])["status_reason"]


def test_closed_terminal_ends_the_agent_and_is_told_once(instance: SandboxInstance) -> None:
    session = instance.spawn("Sleeper", "x", "--workspace", "shop")
    instance.world.server.close(pane_of(instance, session["session_id"]).name)
    ended = instance.ended(session["session_id"])
    assert "the terminal was closed" in ended["status_reason"]
    assert processes_of(session["session_id"]) == []
    types = [event["type"] for event in instance.events(session["session_id"])]
    assert types.count("error") == 1


def test_agent_cut_off_by_the_engine_goes_on_in_a_new_terminal(instance: SandboxInstance) -> None:
    session = instance.spawn("Sleeper", "x", "--workspace", "shop")
    before = instance.session(session["session_id"])
    connection = pane_of(instance, session["session_id"]).process
    assert connection.argv[0] == "docker"
    instance.world.kernel.signal(connection, signal.SIGKILL)  # as the engine does when it ends

    def restored() -> bool:
        now = instance.session(session["session_id"])
        return bool(now["status"] == "running" and now["pid"] != before["pid"])

    until(restored, "the session runs again")
    assert before["pid"] not in processes_of(session["session_id"])
    reasons = [event["message"] for event in instance.events(session["session_id"])]
    assert any("the container engine closed the connection" in reason for reason in reasons)


def test_session_without_a_workspace_has_a_private_directory(instance: SandboxInstance) -> None:
    elsewhere = instance.home / "elsewhere"
    elsewhere.mkdir()
    spawned = instance.run("spawn", "Sh", "pwd; sleep 1000", "--json", cwd=elsewhere)
    session = json.loads(spawned.stdout)
    assert session["effective_mode"] == "sandboxed"
    assert "sm workspace create" in spawned.stderr
    until(
        lambda: f"/scratch/{session['session_id']}" in instance.sm("output", session["session_id"]),
        "the working directory is shown",
    )


def test_daemon_that_was_killed_finds_its_agents_again(instance: SandboxInstance) -> None:
    session = instance.spawn("Sleeper", "x", "--workspace", "shop")
    before = instance.session(session["session_id"])
    instance.kill_daemon()
    assert instance.json("status", session["session_id"])["pid"] == before["pid"]
    another = instance.spawn("Sleeper", "x", "--workspace", "shop")
    assert another["effective_mode"] == "sandboxed"
    assert len(instance.containers) == 1
    instance.sm("kill", session["session_id"])
    assert processes_of(session["session_id"]) == []


def test_child_of_a_sandboxed_agent_is_sandboxed(instance: SandboxInstance) -> None:
    script = "sm spawn Sleeper x --json > child.json; sleep 1000"
    parent = instance.spawn("Sh", script, "--workspace", "shop")
    written = instance.work / "child.json"
    until(lambda: written.exists() and "}" in written.read_text(), "the child is spawned")
    child = json.loads(written.read_text())
    assert (child["effective_mode"], child["parent_session_id"]) == ("sandboxed", parent["session_id"])


def test_level_that_was_asked_for_never_falls_back() -> None:
    with open_instance(has_engine=False) as instance:
        fallen = instance.run("spawn", "Sleeper", "x", "--json")
        assert json.loads(fallen.stdout)["effective_mode"] == "direct"
        assert "/played/docker.sock" in fallen.stderr
        refused = instance.refused("spawn", "Sleeper", "x", "--trust", "sandboxed", exit_code=9)
        assert "/played/docker.sock" in refused
        (instance.home / "other").mkdir()
        other = str(instance.home / "other")
        instance.sm("workspace", "create", "safe", "--working-dir", other, "--trust", "sandboxed")
        instance.refused("spawn", "Sleeper", "x", "--workspace", "safe", exit_code=9)


def test_missing_program_of_an_agent_names_the_image(instance: SandboxInstance) -> None:
    absent = "  Absent: {command: [no-such-program]}\n"
    instance.config.write_text(instance.config.read_text() + absent)
    instance.restart_daemon()
    error = instance.refused("spawn", "Absent", "x", "--workspace", "shop", exit_code=9)
    assert "cannot run no-such-program: no such program on the agent's PATH" in error
    assert "sandbox.image" in error


# ---------------------------------------------------------------------------------------------- faults, by hand


def goes_on(instance: SandboxInstance, *session_ids: str) -> None:
    for session_id in session_ids:
        session = instance.session(session_id)
        assert session["status"] == "running", session["status_reason"]
        assert processes_of(session_id) == [session["pid"]]


def sleeper(instance: SandboxInstance) -> str:
    return str(instance.spawn("Sleeper", "x", "--workspace", "shop")["session_id"])


def ends_told(instance: SandboxInstance, session_id: str) -> int:
    kinds = [event["type"] for event in instance.events(session_id)]
    return sum(kinds.count(kind) for kind in ("error", "completed", "killed", "abandoned"))


def test_kill_ends_an_agent_of_a_paused_container(instance: SandboxInstance) -> None:
    killed, neighbour = sleeper(instance), sleeper(instance)
    [container] = instance.containers
    instance.engine.pause(container)
    instance.sm("kill", killed)
    assert instance.ended(killed)["status"] == "killed"
    assert processes_of(killed) == []
    goes_on(instance, neighbour)
    assert container.state == "running"


def test_container_removed_by_hand_ends_each_session_once(instance: SandboxInstance) -> None:
    ended = [sleeper(instance), sleeper(instance)]
    instance.engine.remove(instance.containers[0])
    for session_id in ended:
        assert instance.ended(session_id)["status"] == "error"
    goes_on(instance, sleeper(instance))  # the next container
    for session_id in ended:
        assert ends_told(instance, session_id) == 1, instance.events(session_id)
        assert processes_of(session_id) == []
    assert len(instance.containers) == 1


def test_foreign_container_with_the_name_is_left_alone(instance: SandboxInstance) -> None:
    sleeper(instance)
    [own] = instance.containers
    instance.sm("sandbox", "rm", "shop", "--force")
    # It has the labels of this instance but one.
    labels = {"app": "sm", "type": "workspace", "workspace": "shop", "instance": "0"}
    foreign = instance.engine.run_foreign(own.name, labels)
    refused = instance.refused(
        "spawn", "Sleeper", "x", "--workspace", "shop", "--trust", "sandboxed", exit_code=9
    )
    assert f"the name {own.name} is taken by container {foreign.id[:12]}" in refused
    assert f"docker rename {foreign.id[:12]} OTHER" in refused
    assert "shop" not in instance.sm("sandbox", "status").partition("Container:")[2]
    instance.refused("sandbox", "rm", "shop", "--force", exit_code=3)
    instance.sm("daemon", "stop", "--all")
    assert foreign.is_running
    assert own.id != foreign.id


def test_stop_of_the_daemon_leaves_containers_and_stop_of_all_removes_them(instance: SandboxInstance) -> None:
    outside = instance.run("spawn", "Sleeper", "x", "--json", "--trust", "sandboxed", cwd=instance.home)
    assert json.loads(outside.stdout)["effective_mode"] == "sandboxed", outside.stderr
    sessions = [sleeper(instance), json.loads(outside.stdout)["session_id"]]
    pids = [instance.session(session_id)["pid"] for session_id in sessions]
    before = [container.id for container in instance.containers]
    assert len(before) == 2
    instance.sm("daemon", "stop")
    assert [container.id for container in instance.containers] == before
    assert [processes_of(session_id) for session_id in sessions] == [[pid] for pid in pids]
    instance.sm("daemon", "start")
    goes_on(instance, *sessions)
    instance.sm("daemon", "stop", "--all")
    assert instance.containers == []
    assert [processes_of(session_id) for session_id in sessions] == [[], []]
    instance.sm("daemon", "start")
    for session_id in sessions:
        assert instance.session(session_id)["status"] == "killed"
        assert ends_told(instance, session_id) == 1


WAIT = "while [ ! -e go ]; do sleep 0.1; done; exit 7"


def test_exit_of_an_agent_is_told_after_the_daemon_restarted(instance: SandboxInstance) -> None:
    coded, killed = instance.spawn("Sh", WAIT, "--workspace", "shop")["session_id"], sleeper(instance)
    instance.sm("daemon", "restart")
    pid = instance.session(killed)["pid"]
    Path(instance.work, "go").touch()
    assert "exit code 7" in instance.ended(coded)["status_reason"]
    instance.world.kernel.kill(pid, signal.SIGKILL)
    assert "signal 9" in instance.ended(killed)["status_reason"]
    for session_id in (coded, killed):
        assert ends_told(instance, session_id) == 1


def test_exit_while_no_daemon_runs_is_told_once_with_its_code(instance: SandboxInstance) -> None:
    coded = instance.spawn("Sh", WAIT, "--workspace", "shop")["session_id"]
    pid = instance.session(coded)["pid"]
    instance.sm("daemon", "stop")
    Path(instance.work, "go").touch()
    until(lambda: not instance.lives(pid), "the agent has ended")
    instance.sm("daemon", "start")
    assert "exit code 7" in instance.ended(coded)["status_reason"]
    assert ends_told(instance, coded) == 1


def test_workspace_cannot_be_named_as_the_default_container(instance: SandboxInstance) -> None:
    refused = instance.refused(
        "workspace", "create", "default", "--working-dir", str(instance.home), exit_code=2
    )
    assert "default" in refused


# ------------------------------------------------------------------------------------------------ sm sandbox


def test_home_of_a_deleted_workspace_is_pruned_on_request(instance: SandboxInstance) -> None:
    instance.sm("kill", sleeper(instance))
    instance.sm("sandbox", "rm", "shop")
    base = Path(instance.world.paths.sandbox("shop").base)
    instance.sm("workspace", "delete", "shop")
    assert instance.json("sandbox", "prune") == []
    assert base.is_dir()
    (removed,) = instance.json("sandbox", "prune", "--homes")
    assert (removed["kind"], removed["name"]) == ("home", "shop")
    assert not base.exists()


def test_sandbox_commands_are_refused_for_a_session(instance: SandboxInstance) -> None:
    direct = instance.spawn("Sleeper", "x", "--trust", "direct", cwd=instance.home)["session_id"]
    session = instance.as_session(direct)
    for arguments in (
        ["status"],
        ["build"],
        ["stop", "default"],
        ["rm", "default"],
        ["prune"],
        ["shell", "default"],
    ):
        error = instance.refused("sandbox", *arguments, exit_code=5, env=session)
        assert error.startswith("sm: only the operator may manage sandboxes\n")


def test_sandbox_commands_without_an_engine_name_the_reason() -> None:
    with open_instance(has_engine=False) as instance:
        assert "Engine:    not available: no Docker engine runs" in instance.sm("sandbox", "status")
        refused = instance.run("sandbox", "build")
        assert refused.returncode == 9
        assert "no Docker engine runs" in refused.stderr
        assert "no Docker engine runs" in instance.refused("sandbox", "stop", "default", exit_code=9)


def test_interrupt_reaches_the_agent_in_its_container(instance: SandboxInstance) -> None:
    session_id = instance.spawn("Sleeper", "x", "--workspace", "shop")["session_id"]
    instance.sm("interrupt", session_id)
    ended = instance.ended(session_id)
    assert (ended["status"], ended["exit_code"], ended["exit_signal"]) == ("error", None, 2)


def test_removed_directory_of_a_socket_is_named_until_its_container_starts_again(
    instance: SandboxInstance,
) -> None:
    session = instance.spawn("Sleeper", "x", "--workspace", "shop")
    other = instance.spawn("Sleeper", "x", "--trust", "sandboxed", cwd=instance.home)
    assert other["workspace"] is None
    socket = Path(instance.world.paths.agent_socket("shop"))
    assert "Problem" not in instance.sm("status")
    shutil.rmtree(socket.parent)
    container = next(found for found in instance.containers if found.name.endswith("-shop"))
    container.removed.add(INSIDE_SOCKET_DIR)
    until(socket.exists, "the daemon serves a new socket")
    way_back = "type sm sandbox stop shop --force, then sm restore for each agent"
    said = f"agents in container shop cannot reach sm: {socket.parent} was removed while the container ran; {way_back}"
    assert f"Problem:      {said}" in instance.sm("status")
    assert said not in instance.run_inside(other["session_id"], "status").stdout
    instance.restart_daemon()
    assert said in instance.sm("status")
    instance.sm("sandbox", "stop", "shop", "--force")
    assert "Problem" not in instance.sm("status")
    instance.sm("restore", session["session_id"])
    assert "Problem" not in instance.sm("status")
    assert instance.run_inside(session["session_id"], "note", "I am back").returncode == 0
