"""`sm sandbox` with a real engine: the image, the containers, and the routes behind them."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.paths import InstancePaths
from tests.api_client import ApiClient
from tests.instance import Instance, until
from tests.integration.test_sandbox import all_containers, docker

DAEMON_CONFIG = "sandbox: {{engine: '{engine}', image: {image}}}"


@pytest.fixture
def sandboxed(engine: str, sandbox_image: str) -> Iterator[Instance]:
    """An instance with a workspace `shop`, whose directory belongs to another user than root."""
    with Instance(DAEMON_CONFIG.format(engine=engine, image=sandbox_image)) as instance:
        shop = instance.home / "shop"
        shop.mkdir()
        if os.geteuid() == 0:
            os.chown(shop, 1000, 1000)
        instance.sm("workspace", "create", "shop", "--working-dir", str(shop))
        yield instance
        instance.sm("daemon", "stop", "--all")
        assert all_containers(engine, instance) == {}


def make_container(instance: Instance) -> None:
    """Make the container of `shop`, as every container is made: by the first session."""
    session = instance.spawn("Sleeper", "x", "--workspace", "shop", "--trust", "sandboxed")["session_id"]
    instance.sm("kill", session)


def enter(client: ApiClient) -> list[str]:
    argv: list[str] = client.post("/v1/sandbox/containers/{name}/enter", "shop")["argv"]
    return argv


def test_container_is_entered_shown_stopped_removed_and_pruned(sandboxed: Instance, engine: str) -> None:
    client = ApiClient(sandboxed.socket)
    error = sandboxed.refused("sandbox", "shell", "shop", exit_code=4)
    assert error.startswith("sm: workspace shop has no container yet\nhint: ")
    assert "sm sandbox login shop" in error
    for command in ("stop", "rm"):
        assert "workspace shop has no container" in sandboxed.refused("sandbox", command, "shop", exit_code=3)
        assert "no such workspace: shp" in sandboxed.refused("sandbox", command, "shp", exit_code=3)

    login = client.refused("/v1/sandbox/containers/{name}/enter", "shop", login="claude")
    assert login["message"].endswith(" has no claude")
    assert login["hint"] == "sm sandbox build --with claude"

    make_container(sandboxed)
    argv = enter(client)
    assert argv[:3] == ["docker", "-H", engine]
    assert argv[-1] == "bash"
    # The command that the CLI executes, without its terminal. The client of the daemon is on its PATH.
    script = "echo $HOME; id -u; pwd; sm version; sm config --check; ls -d /opt/sm/bin/sm; sm ls; echo $?"
    done = subprocess.run(
        [part for part in argv if part != "-it"] + ["-c", script], capture_output=True, text=True, check=True
    )
    uid = str(os.geteuid() or 1000)
    shop = str(sandboxed.home / "shop")
    version = sandboxed.sm("version").strip()
    assert done.stdout.splitlines() == ["/home/sandbox", uid, shop, version, "/opt/sm/bin/sm", "5"]
    assert done.stderr == (
        "sm: this command does not run in a sandbox\nhint: run it on the host\n"
        "sm: this shell is not a session: in a sandbox, only agents use sm\nhint: run sm on the host\n"
    )

    status = client.get("/v1/sandbox")
    (container,) = status["containers"]
    assert (container["workspace"], container["state"], container["current"]) == ("shop", "running", True)
    assert container["usage"]["memory_limit_bytes"] == 4 << 30
    assert container["usage"]["pids_limit"] == 1024
    shown = f"Container: shop ({container['name']}): running, 0 sessions, memory "
    # On a busy machine, the engine may not answer in time once.
    until(
        lambda: "memory" in str(sandboxed.get("/v1/sandbox")["containers"][0]["usage"]), "the engine answers"
    )
    assert shown in sandboxed.sm("sandbox", "status")
    assert "sandboxes: 1 container" in sandboxed.run("doctor").stdout
    assert f"started container {container['name']}" in sandboxed.sm("sandbox", "logs")

    assert sandboxed.sm("sandbox", "stop", "shop") == "Stopped the container of workspace shop\n"
    assert client.get("/v1/sandbox")["containers"][0]["state"] == "exited"
    (unused,) = client.get("/v1/sandbox/unused", homes="1")
    assert (unused["kind"], unused["name"]) == ("container", container["name"])
    assert client.post("/v1/sandbox/prune") == [unused]
    assert sandboxed.sm("sandbox", "prune") == "Nothing to remove\n"

    make_container(sandboxed)
    assert sandboxed.sm("sandbox", "rm", "shop") == "Removed the container of workspace shop\n"
    assert Path(InstancePaths("", str(sandboxed.state)).sandbox("shop").home).is_dir()
    assert all_containers(engine, sandboxed) == {}
    client.close()
    make_container(sandboxed)  # for `sm daemon stop --all` of the fixture


@pytest.fixture
def labelled_image(engine: str, sandbox_image: str) -> Iterator[str]:
    """An image that is said to have claude."""
    name = f"sm-test-{uuid.uuid4().hex[:8]}"
    dockerfile = f"FROM {sandbox_image}\nLABEL agents=claude@2.1.197\n"
    subprocess.run(
        ["docker", "-H", engine, "build", "--quiet", "--tag", name, "-"],
        input=dockerfile, text=True, check=True, timeout=60, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    yield name
    docker(engine, "rmi", name)


def test_login_comes_after_the_files_with_which_claude_asks_no_first_questions(
    engine: str, labelled_image: str
) -> None:
    with Instance(DAEMON_CONFIG.format(engine=engine, image=labelled_image)) as instance:
        instance.sm("daemon", "start")
        client = ApiClient(instance.socket)
        argv = client.post("/v1/sandbox/containers/{name}/enter", "default", login="claude")["argv"]
        assert argv[-3:] == ["claude", "auth", "login"]
        home = Path(InstancePaths("", str(instance.state)).sandbox(None).home)
        state = json.loads((home / ".claude.json").read_text())
        assert state == {"hasCompletedOnboarding": True}
        assert (home / ".claude.json").stat().st_uid == home.stat().st_uid
        client.close()
        instance.sm("daemon", "stop", "--all")


def test_container_with_a_live_process_is_removed_only_by_force(sandboxed: Instance, engine: str) -> None:
    client = ApiClient(sandboxed.socket)
    make_container(sandboxed)
    argv = [part for part in enter(client)[:-1] if part != "-it"]
    argv.insert(argv.index("exec") + 1, "--detach")
    subprocess.run([*argv, "sleep", "1000"], check=True, stdout=subprocess.DEVNULL)
    refused = sandboxed.refused("sandbox", "rm", "shop", exit_code=4)
    assert "sm: processes run in container sm-" in refused and "add --force" in refused
    path = "/v1/sandbox/containers/{name}/stop"
    assert client.refused(path, "shop")["code"] == "illegal_state"
    client.post(path, "shop", force=True)
    client.post("/v1/sandbox/containers/{name}/remove", "shop")
    client.close()


def test_doctor_without_an_engine_names_the_reason(instance: Instance) -> None:
    instance.start_daemon()
    assert "sandboxes: no Docker engine runs" in instance.run("doctor").stdout
