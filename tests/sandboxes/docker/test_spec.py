"""The options of a container. `test_inspect` shows that the engine applies them."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sm import __version__
from sm.config import SandboxSection
from sm.core.models import Workspace
from sm.errors import SandboxUnavailable
from sm.paths import InstancePaths
from sm.sandboxes.docker.refusals import Host
from sm.sandboxes.docker.spec import DEFAULT_USER, ContainerSpec, build_spec, container_user

INSTANCE = "0123456789abcdef"
HOST = Host(1000, 1001, ("/nonexistent",))
ROOT = replace(HOST, uid=0, gid=0)

Build = Callable[..., ContainerSpec]


@pytest.fixture
def paths(tmp_path: Path) -> InstancePaths:
    return InstancePaths(f"{tmp_path}/sm/config.yaml", f"{tmp_path}/sm/state")


@pytest.fixture
def shop(tmp_path: Path) -> Workspace:
    (tmp_path / "shop").mkdir()
    return Workspace("shop", f"{tmp_path}/shop", "2026-01-01T00:00:00Z")


@pytest.fixture
def build(paths: InstancePaths, shop: Workspace) -> Build:
    def made(
        workspace: Workspace | None = shop, *, nofile_max: int | None = None, **settings: Any
    ) -> ContainerSpec:
        section = SandboxSection(**settings)
        return build_spec(workspace, section, paths, INSTANCE, nofile_max=nofile_max, host=HOST)

    return made


def test_container_is_hardened_by_default(build: Build) -> None:
    host = dict(build().host_config)
    mounts = host.pop("mounts")
    assert host == {
        "init": True,
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "pids_limit": 1024,
        "mem_limit": 4 << 30,
        "memswap_limit": 4 << 30,
        "mem_reservation": 512 << 20,
        "cpu_period": 100_000,
        "cpu_quota": 200_000,
        "ipc_mode": "private",
        "network_mode": "sm-01234567",
        "log_config": {"type": "none"},
        "tmpfs": {
            "/tmp": f"rw,nosuid,nodev,exec,size={256 << 20},mode=1777",
            "/run": f"rw,nosuid,nodev,noexec,size={16 << 20},uid=1000,gid=1001,mode=0700",
            "/run/sm": f"rw,nosuid,nodev,noexec,size={16 << 20},mode=0755",
            "/scratch": f"rw,nosuid,nodev,exec,size={512 << 20},uid=1000,gid=1001,mode=0700",
        },
    }
    assert {mount["Type"] for mount in mounts} == {"bind"}
    assert {mount["BindOptions"]["Propagation"] for mount in mounts} == {"rprivate"}


def test_container_runs_nothing_but_its_first_process(build: Build) -> None:
    assert build().options == {
        "image": "sm-sandbox",
        "entrypoint": ["sleep"],
        "command": ["infinity"],
        "working_dir": "/",
        "hostname": "shop",
        "user": "1000:1001",
        "healthcheck": {"test": ["NONE"]},
        "use_config_proxy": False,
    }


def test_spec_is_plain_data(build: Build) -> None:
    spec = build(nofile=1024, host_access=True, runtime="runsc")
    assert json.loads(json.dumps([spec.options, spec.host_config])) == [spec.options, spec.host_config]


def test_settings_reach_the_options(build: Build) -> None:
    spec = build(
        image="own", memory="2g", memory_reservation="1g", cpus=0.5, pids=500, scratch="1g", tmp="1m", runtime="runsc"
    )  # fmt: skip
    host = spec.host_config
    assert (spec.options["image"], host["mem_limit"], host["memswap_limit"]) == ("own", 2 << 30, 2 << 30)
    assert (host["mem_reservation"], host["cpu_quota"], host["pids_limit"]) == (1 << 30, 50_000, 500)
    assert f"size={1 << 30}" in host["tmpfs"]["/scratch"] and f"size={1 << 20}" in host["tmpfs"]["/tmp"]
    assert host["runtime"] == "runsc"


def test_reservation_is_at_most_the_memory(build: Build) -> None:
    """The engine refuses a container whose reservation is above its memory."""
    small = SandboxSection(memory="512m").model_copy(update={"memory_reservation": "4g"})
    assert (
        build(**small.model_dump(exclude={"memory_reservation"})).host_config["mem_reservation"] == 512 << 20
    )


@pytest.mark.parametrize(("nofile_max", "limit"), [(None, 4096), (100_000, 4096), (1024, 1024)])
def test_open_files_are_limited_to_those_of_the_engine(
    build: Build, nofile_max: int | None, limit: int
) -> None:
    """A higher limit makes every start fail with EPERM."""
    spec = build(nofile=4096, nofile_max=nofile_max)
    assert spec.host_config["ulimits"] == [{"name": "nofile", "soft": limit, "hard": limit}]


def test_no_limit_of_processes_is_set_for_the_user(build: Build) -> None:
    """The kernel counts them on the whole machine: exec fails there with EAGAIN."""
    assert "ulimits" not in build().host_config


def test_network_none_has_neither_network_nor_host(build: Build) -> None:
    spec = build(network="none", host_access=True)
    assert (spec.network, spec.host_config["network_mode"]) == ("none", "none")
    assert "extra_hosts" not in spec.host_config


def test_host_access_adds_the_name_of_the_host(build: Build) -> None:
    assert build(host_access=True).host_config["extra_hosts"] == ["host.docker.internal:host-gateway"]


def test_file_systems_below_a_read_only_mount_are_not_mounted(build: Build) -> None:
    """Engines before 25 would leave them writable."""
    mounts = {mount["Target"]: mount for mount in build().host_config["mounts"]}
    assert mounts["/opt/sm"]["ReadOnly"] and mounts["/opt/sm"]["BindOptions"]["NonRecursive"]
    assert not mounts["/home/sandbox"]["ReadOnly"]
    assert "NonRecursive" not in mounts["/home/sandbox"]["BindOptions"]


# ---------------------------------------------------------------------------------------------------- names and labels


def test_container_is_found_again_by_its_labels(build: Build) -> None:
    spec = build()
    assert spec.name == "sm-01234567-shop"
    assert spec.labels == {
        "app": "sm",
        "type": "workspace",
        "workspace": "shop",
        "instance": INSTANCE,
        "config": spec.hash,
        "version": __version__,
    }


def test_default_container_is_no_workspace(build: Build) -> None:
    spec = build(None)
    assert (spec.name, spec.options["hostname"]) == ("sm-01234567-default", "sandbox")
    assert (spec.labels["type"], spec.labels["workspace"]) == ("default", "")


def test_workspace_named_default_has_a_container_of_its_own(build: Build, shop: Workspace) -> None:
    """Earlier versions allowed this name."""
    names = {build(w and replace(shop, slug=w)).name for w in (None, "default", "ws-default")}
    assert len(names) == 3


def test_long_name_of_a_workspace_fits_into_a_host_name(build: Build, shop: Workspace) -> None:
    spec = build(replace(shop, slug="a" * 62 + "-b"))
    assert spec.options["hostname"] == "a" * 62


# -------------------------------------------------------------------------------------------------------------- drift


def test_same_settings_make_the_same_hash(build: Build) -> None:
    assert build().hash == build().hash


@pytest.mark.parametrize(
    "settings",
    [
        {"image": "other"},
        {"memory": "2g"},
        {"network": "none"},
        {"pids": 500},
        {"nofile": 1024},
        {"host_access": True},
        {"mounts": ("/srv",)},
        {"scratch": "1g"},
    ],
)
def test_setting_of_the_container_changes_the_hash(build: Build, settings: dict[str, Any]) -> None:
    assert build(**settings).hash != build().hash


def test_setting_outside_of_the_container_keeps_the_hash(build: Build) -> None:
    assert build(idle_stop_s=1, pass_env=("A",), fallback="never", vault="/srv").hash == build().hash


def test_other_workspace_has_another_hash(build: Build, shop: Workspace) -> None:
    assert build(replace(shop, slug="other")).hash != build().hash


@pytest.mark.parametrize("name", [".mcp.json", ".git/config"])
def test_protected_file_that_was_made_or_replaced_changes_the_hash(
    build: Build, shop: Workspace, name: str
) -> None:
    """git replaces its configuration: the container would keep the old file."""
    file = Path(shop.directory, name)
    file.parent.mkdir(exist_ok=True)
    missing = build().hash
    file.touch()
    first = build().hash
    os.link(file, file.with_name("old"))  # keeps the inode from being used again
    file.with_name("new").touch()
    file.with_name("new").rename(file)
    assert len({missing, first, build().hash}) == 3


def test_directories_that_are_made_later_keep_the_hash(build: Build, paths: InstancePaths) -> None:
    before = build().hash
    for path in (paths.sandbox("shop").home, paths.sandbox("shop").launch, paths.sandbox("shop").socket_dir):
        os.makedirs(path)
    assert build().hash == before


# ---------------------------------------------------------------------------------------------------------- the user


def test_container_runs_as_the_user_of_the_daemon(shop: Workspace) -> None:
    assert container_user(shop, HOST) == (1000, 1001)
    assert container_user(None, HOST) == (1000, 1001)


def test_default_container_of_root_runs_as_a_user_without_files() -> None:
    assert container_user(None, ROOT) == DEFAULT_USER


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")
@pytest.mark.parametrize(("owner", "user"), [((1234, 5678), (1234, 5678)), ((1234, 0), (1234, 1234))])
def test_container_of_root_runs_as_the_owner_of_the_directory(
    shop: Workspace, owner: tuple[int, int], user: tuple[int, int]
) -> None:
    os.chown(shop.directory, *owner)
    assert container_user(shop, ROOT) == user


@pytest.mark.skipif(os.geteuid() != 0, reason="the directory belongs to the user of the tests")
def test_directory_of_root_is_refused_with_the_command_to_type(shop: Workspace) -> None:
    with pytest.raises(SandboxUnavailable, match="belongs to root, and no container runs as root") as raised:
        container_user(shop, ROOT)
    assert raised.value.hint is not None
    assert raised.value.hint.endswith(f"chown -R 1000:1000 {shop.directory}")


def test_missing_directory_has_no_owner(shop: Workspace) -> None:
    with pytest.raises(SandboxUnavailable, match="cannot be read: /none: No such file"):
        container_user(replace(shop, directory="/none"), ROOT)
