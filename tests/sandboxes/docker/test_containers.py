"""Containers of workspaces on a real engine: made once, found again, made anew, stopped when idle."""

import asyncio
import contextlib
import os
import signal
from dataclasses import replace
from functools import partial

import pytest

from sm.errors import IllegalState, NotFound, SandboxUnavailable
from sm.linux.processes import is_alive
from sm.sandboxes.containers import Container, ContainerEventKind
from tests.sandboxes.docker.conftest import Open, Sandboxes

pytestmark = pytest.mark.processes


def is_gone(container: Container) -> bool:
    return not is_alive(container.init)


async def test_twenty_sessions_that_start_at_the_same_time_share_one_container(sandboxes: Sandboxes) -> None:
    workspace = sandboxes.workspace()
    made = await asyncio.gather(*(sandboxes.containers.ensure(workspace) for _ in range(20)))
    assert len({container.id for container in made}) == 1
    assert await sandboxes.all_in(sandboxes.containers) == [f"sm-{sandboxes.instance[:8]}-shop"]


async def test_default_container_is_not_that_of_a_workspace_named_default(sandboxes: Sandboxes) -> None:
    default = await sandboxes.containers.ensure(None)
    named = await sandboxes.containers.ensure(sandboxes.workspace("default"))
    assert (default.workspace, named.workspace) == (None, "default")
    assert default.id != named.id and default.name != named.name
    assert sandboxes.containers.find(None) == default and sandboxes.containers.find("default") == named


async def test_ensure_returns_the_known_container_until_its_configuration_changes(
    sandboxes: Sandboxes,
) -> None:
    workspace = sandboxes.workspace()
    first = await sandboxes.containers.ensure(workspace)
    assert await sandboxes.containers.ensure(workspace) == first
    changed = await sandboxes.containers.ensure(sandboxes.override(workspace, pids=200))
    assert changed.id != first.id and not is_alive(first.init)
    assert sandboxes.docker("inspect", "-f", "{{.HostConfig.PidsLimit}}", changed.id) == "200"


async def test_client_is_written_once_by_each_daemon_and_again_when_it_is_gone(sandboxes: Sandboxes) -> None:
    workspace = sandboxes.workspace()
    for _ in range(3):
        await sandboxes.containers.check(workspace)
        await sandboxes.containers.ensure(workspace)
    assert sandboxes.client_writes == 1
    os.unlink(f"{sandboxes.paths.client}/bin/sm")
    await sandboxes.containers.ensure(workspace)
    assert sandboxes.client_writes == 2
    await sandboxes.open().adopt()  # its agents have the client of the daemon before
    assert sandboxes.client_writes == 3


async def test_container_with_a_live_process_keeps_its_configuration_with_a_warning(
    sandboxes: Sandboxes,
) -> None:
    workspace = sandboxes.workspace()
    first = await sandboxes.containers.ensure(workspace)
    sandboxes.start_inside(first, "sleep", "1000")
    kept = await sandboxes.containers.ensure(sandboxes.override(workspace, pids=200))
    assert kept.id == first.id
    (warning,) = kept.warnings
    assert await sandboxes.containers.check(sandboxes.workspaces["shop"]) == (warning,)
    assert await sandboxes.containers.check(workspace) == ()
    assert warning.endswith("end them and type sm sandbox rm shop")
    (member,) = kept.members()
    os.kill(member.pid, signal.SIGKILL)
    await sandboxes.until(lambda: not kept.members(), "the process has ended")
    assert (await sandboxes.containers.ensure(sandboxes.workspaces["shop"])).id != first.id


async def test_new_daemon_adopts_the_containers_of_its_instance_only(
    sandboxes: Sandboxes, open_sandboxes: Open
) -> None:
    other = open_sandboxes(sandboxes.url, sandboxes.settings["image"])
    foreign = await other.containers.ensure(None)
    made = await sandboxes.containers.ensure(sandboxes.workspace())
    later = sandboxes.open()
    await later.adopt()
    assert later.find("shop") == made
    assert later.find(None) is None
    assert later.of_pid(made.init.pid) == made
    assert later.of_pid(foreign.init.pid) is None
    assert later.of_pid(os.getpid()) is None
    assert (await later.ensure(sandboxes.workspaces["shop"])) == made
    assert {record.id for record in await later.list(all_instances=True)} >= {made.id, foreign.id}
    assert await later.remove_all() == (made.name,)
    assert other.containers.find(None) == foreign
    await later.close()


async def test_no_container_is_left_when_all_are_removed_while_one_is_made(sandboxes: Sandboxes) -> None:
    """As with `sm daemon stop --all` during the first spawn."""
    containers, workspace = sandboxes.containers, sandboxes.workspace()
    making = asyncio.create_task(containers.ensure(workspace))
    await asyncio.sleep(0)  # the attempt has begun
    removed = await containers.remove_all()
    with contextlib.suppress(SandboxUnavailable):
        assert removed == ((await making).name,)
    assert await containers.list() == ()
    with pytest.raises(SandboxUnavailable, match="the daemon is stopping"):
        await containers.ensure(workspace)


async def test_paused_container_goes_on_with_its_processes(sandboxes: Sandboxes) -> None:
    workspace = sandboxes.workspace()
    first = await sandboxes.containers.ensure(workspace)
    sandboxes.follow()
    await sandboxes.containers.adopt()
    sandboxes.start_inside(first, "sleep", "1000")

    def state() -> str:
        found = sandboxes.containers.find("shop")
        return found.state if found else ""

    # Events come only once the stream is connected, so the test repeats what causes one.
    sandboxes.docker("pause", first.id)
    await sandboxes.until(lambda: state() == "paused", "the event of the pause")
    again = await sandboxes.containers.ensure(workspace)
    assert (again.id, again.init, again.state) == (first.id, first.init, "running")
    assert len(again.members()) == 1
    assert sandboxes.docker("inspect", "-f", "{{.State.Paused}}", first.id) == "false"


async def test_stopped_container_is_started_and_a_removed_one_made_anew(sandboxes: Sandboxes) -> None:
    workspace = sandboxes.workspace()
    first = await sandboxes.containers.ensure(workspace)
    sandboxes.follow()
    sandboxes.docker("stop", "-t", "1", first.id)
    await sandboxes.until(lambda: sandboxes.events, "the event")
    assert sandboxes.containers.find("shop") is None
    second = await sandboxes.containers.ensure(workspace)
    assert second.id == first.id and second.init != first.init
    sandboxes.docker("rm", "-f", first.id)
    third = await sandboxes.containers.ensure(workspace)
    assert third.id != first.id


async def test_container_is_made_anew_when_its_network_was_removed(sandboxes: Sandboxes) -> None:
    workspace = sandboxes.workspace()
    first = await sandboxes.containers.ensure(workspace)
    sandboxes.docker("stop", "-t", "1", first.id)
    sandboxes.docker("network", "rm", f"sm-{sandboxes.instance[:8]}")
    assert (await sandboxes.containers.ensure(workspace)).id != first.id


async def test_container_is_given_up_when_its_first_process_ends_three_times(sandboxes: Sandboxes) -> None:
    workspace = sandboxes.workspace()
    ids = set()
    for _ in range(3):
        made = await sandboxes.containers.ensure(workspace)
        ids.add(made.id)
        os.kill(made.init.pid, signal.SIGKILL)
        await sandboxes.until(partial(is_gone, made), "the container has ended")
    with pytest.raises(
        SandboxUnavailable, match="of workspace shop ended 3 times within 5 minutes"
    ) as raised:
        await sandboxes.containers.ensure(workspace)
    assert len(ids) == 3
    assert "sm sandbox rm shop --force" in str(raised.value.hint)
    assert sandboxes.containers.problem("shop") == raised.value.message
    with pytest.raises(SandboxUnavailable, match="ended 3 times"):
        await sandboxes.containers.check(workspace)
    await sandboxes.containers.remove("shop", force=True)
    assert sandboxes.containers.problem("shop") is None
    await sandboxes.containers.ensure(workspace)


async def test_listeners_hear_once_of_a_container_that_dies(sandboxes: Sandboxes) -> None:
    made = await sandboxes.containers.ensure(sandboxes.workspace())
    sandboxes.follow()
    os.kill(made.init.pid, signal.SIGKILL)
    await sandboxes.until(lambda: sandboxes.events, "the event")
    assert sandboxes.events == [(ContainerEventKind.DIED, made)]
    assert sandboxes.containers.find("shop") is None


async def test_container_has_ended_for_the_processes_that_ran_in_it_unless_sm_ended_it(
    sandboxes: Sandboxes,
) -> None:
    workspace, containers = sandboxes.workspace(), sandboxes.containers
    made = await containers.ensure(workspace)
    first = made.init
    assert not await containers.has_ended("shop", first)
    sandboxes.follow()
    os.kill(first.pid, signal.SIGKILL)
    await sandboxes.until(lambda: sandboxes.events, "the event")
    assert await containers.has_ended("shop", first)
    later = (await containers.ensure(workspace)).init
    assert await containers.has_ended("shop", first)
    assert not await containers.has_ended("shop", later)
    await containers.stop("shop")
    assert not await containers.has_ended("shop", later), "by an order of sm"


async def test_container_that_ended_while_no_daemon_ran_has_ended(sandboxes: Sandboxes) -> None:
    made = await sandboxes.containers.ensure(sandboxes.workspace())
    later = sandboxes.open()
    assert not await later.has_ended("shop", made.init)
    os.kill(made.init.pid, signal.SIGKILL)
    await sandboxes.until(partial(is_gone, made), "the container has ended")
    assert await later.has_ended("shop", made.init)
    again = await later.ensure(sandboxes.workspace())
    assert await sandboxes.open().has_ended("shop", made.init)
    assert not await sandboxes.open().has_ended("shop", again.init)
    await later.close()


async def test_foreign_container_with_our_name_is_named_and_not_touched(sandboxes: Sandboxes) -> None:
    name = f"sm-{sandboxes.instance[:8]}-shop"
    image = sandboxes.settings["image"]
    foreign = sandboxes.docker("run", "-d", "--name", name, "--network", "none", image, "sleep", "1000")
    try:
        with pytest.raises(
            SandboxUnavailable, match=f"{name} is taken by container {foreign[:12]}"
        ) as raised:
            await sandboxes.containers.ensure(sandboxes.workspace())
        assert raised.value.hint == f"docker rename {foreign[:12]} OTHER"
        assert sandboxes.docker("inspect", "-f", "{{.State.Running}}", foreign) == "true"
    finally:
        sandboxes.docker("rm", "-f", foreign)


async def test_container_with_our_labels_but_another_instance_is_not_touched(sandboxes: Sandboxes) -> None:
    name = f"sm-{sandboxes.instance[:8]}-shop"
    labels = ["app=sm", "type=workspace", "workspace=shop", f"instance={'0' * 32}"]
    options = [word for label in labels for word in ("--label", label)]
    image = sandboxes.settings["image"]
    foreign = sandboxes.docker(
        "run", "-d", "--name", name, "--network", "none", *options, image, "sleep", "1000"
    )
    try:
        with pytest.raises(SandboxUnavailable, match=f"{name} is taken by container {foreign[:12]}"):
            await sandboxes.containers.ensure(sandboxes.workspace())
        assert await sandboxes.containers.remove_all() == ()
        assert sandboxes.docker("inspect", "-f", "{{.State.Running}}", foreign) == "true"
    finally:
        sandboxes.docker("rm", "-f", foreign)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change owners")
async def test_directory_of_root_is_refused_before_a_container_is_made(sandboxes: Sandboxes) -> None:
    workspace = sandboxes.workspace()
    sandboxes.give(workspace.directory, 0)
    for operation in (sandboxes.containers.check, sandboxes.containers.ensure):
        with pytest.raises(SandboxUnavailable, match="belongs to root") as raised:
            await operation(workspace)
        assert "chown" in str(raised.value.hint)
    assert await sandboxes.all_in(sandboxes.containers) == []


async def test_missing_image_names_the_command_that_builds_it(sandboxes: Sandboxes) -> None:
    sandboxes.settings["image"] = "sm-missing"
    with pytest.raises(SandboxUnavailable, match="has no image sm-missing") as raised:
        await sandboxes.containers.ensure(sandboxes.workspace())
    assert raised.value.hint == "sm sandbox build"


async def test_stop_and_remove_are_refused_while_a_process_lives_in_the_container(
    sandboxes: Sandboxes,
) -> None:
    made = await sandboxes.containers.ensure(sandboxes.workspace())
    # An orphan with the same command line as the container's own command.
    sandboxes.inside(made, "sh", "-c", "sleep infinity </dev/null >/dev/null 2>&1 &")
    for operation in (sandboxes.containers.stop, sandboxes.containers.remove):
        with pytest.raises(IllegalState, match="processes run in container"):
            await operation("shop")
    assert is_alive(made.init)
    await sandboxes.containers.stop("shop", force=True)
    assert not is_alive(made.init)
    await sandboxes.containers.remove("shop")
    with pytest.raises(NotFound, match="workspace shop has no container"):
        await sandboxes.containers.remove("shop")


async def test_idle_container_stops_but_not_while_a_process_lives_in_it(
    open_sandboxes: Open, engine: str, sandbox_image: str
) -> None:
    sandboxes = open_sandboxes(engine, sandbox_image, idle_stop_s=1)
    workspace = sandboxes.workspace()
    used = await sandboxes.containers.ensure(sandboxes.workspace("used"))
    sandboxes.start_inside(used, "sleep", "1000")
    idle = await sandboxes.containers.ensure(workspace)
    await sandboxes.until(lambda: not is_alive(idle.init), "the idle container has stopped")
    assert is_alive(used.init)
    (member,) = used.members()
    os.kill(member.pid, signal.SIGKILL)
    await sandboxes.until(lambda: not is_alive(used.init), "the other container has stopped too")
    started = await sandboxes.containers.ensure(replace(workspace))
    assert started.id == idle.id
