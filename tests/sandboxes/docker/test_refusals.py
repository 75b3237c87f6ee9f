"""Directories that no container sees."""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.errors import SandboxUnavailable
from sm.paths import InstancePaths
from sm.policy.mounts import IMAGE_DIRECTORIES, SYSTEM_DIRECTORIES, engine_data, home_secrets, system_refusal
from sm.sandboxes.docker.refusals import Host, MountPath, check_directory, check_path, refusal


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "people/ann"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def paths(home: Path) -> InstancePaths:
    return InstancePaths(f"{home}/.config/sm/config.yaml", f"{home}/.local/state/sm")


@pytest.fixture
def host(home: Path) -> Host:
    return Host(1000, 1000, (str(home),))


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        yield server


def named(path: Path | str) -> MountPath:
    return MountPath(str(path), "x", "use another path")


def refused(path: Path | str, paths: InstancePaths, host: Host) -> str:
    with pytest.raises(SandboxUnavailable) as raised:
        check_path(named(path), paths, host)
    return raised.value.message.removeprefix(f"x cannot be mounted into a container: {path}: ")


@pytest.mark.parametrize("directory", [*SYSTEM_DIRECTORIES, *engine_data(), *IMAGE_DIRECTORIES])
def test_directory_of_the_system_and_what_is_in_it_is_refused(directory: str) -> None:
    assert system_refusal(directory)
    assert system_refusal(f"{directory}/below")


@pytest.mark.parametrize(
    "directory",
    ["/", "/usr", "/usr/local", "/var", "/var/lib", "/opt", "/home", "/tmp", "/run", "/scratch", "/vault"],
)
def test_directory_above_a_refused_one_or_over_a_part_of_the_container_is_refused(directory: str) -> None:
    assert system_refusal(directory)


@pytest.mark.parametrize(
    "directory",
    [
        "/srv",
        "/home/ann/shop",
        "/tmp/x",
        "/scratch/x",
        "/usr/src/x",
        "/etcetera",
        "/var/www",
        "/opt/x",
        "/boots",
    ],
)
def test_other_directory_is_not_refused(directory: str) -> None:
    assert system_refusal(directory) is None


def test_home_directory_and_what_is_above_it_is_refused(home: Path, paths: InstancePaths, host: Host) -> None:
    reason = f"it contains the home directory {home}"
    assert refused(home, paths, host) == reason
    assert refused(home.parent, paths, host) == reason


@pytest.mark.parametrize("name", home_secrets())
def test_credentials_of_the_home_directory_are_refused(
    home: Path, paths: InstancePaths, host: Host, name: str
) -> None:
    (home / name / "keys").mkdir(parents=True)
    assert refused(home / name, paths, host) == f"~/{name} can hold credentials"
    assert refused(home / name / "keys", paths, host) == f"~/{name} can hold credentials"


def test_place_to_which_credentials_were_moved_is_refused(
    home: Path, paths: InstancePaths, host: Host
) -> None:
    moved = home.parent / "disk/keys"
    moved.mkdir(parents=True)
    (home / ".ssh").symlink_to(moved)
    assert refused(moved, paths, host) == "~/.ssh can hold credentials"
    assert refused(moved.parent, paths, host) == "~/.ssh can hold credentials"


def test_directories_of_sm_and_what_is_above_and_in_them_is_refused(
    home: Path, paths: InstancePaths, host: Host
) -> None:
    Path(paths.state, "ws").mkdir(parents=True)
    Path(paths.home, "agents").mkdir(parents=True)
    Path(paths.config).touch()
    state, configuration = f"{paths.state} belongs to the state of sm", "belongs to the configuration of sm"
    assert refused(f"{paths.state}/ws", paths, host) == state
    assert refused(home / ".local", paths, host) == state
    assert refused(paths.config, paths, host) == f"{paths.config} {configuration}"
    assert refused(paths.home, paths, host) == f"{paths.config} {configuration}"
    assert refused(f"{paths.home}/agents", paths, host) == f"{paths.home}/agents {configuration}"
    # Above the home directory of another user, and above the state:
    other = Host(1000, 1000, ())
    assert refusal(str(home), paths, other) == state


def test_project_beside_the_configuration_is_accepted(tmp_path: Path, host: Host) -> None:
    """With SM_HOME, the state is in the directory of the configuration."""
    (tmp_path / "sm/shop").mkdir(parents=True)
    paths = InstancePaths(f"{tmp_path}/sm/config.yaml", f"{tmp_path}/sm/state")
    assert check_path(named(f"{tmp_path}/sm/shop"), paths, host) == f"{tmp_path}/sm/shop"
    assert refused(tmp_path / "sm", paths, host) == f"{paths.state} belongs to the state of sm"


@pytest.mark.parametrize("name", ["docker.sock", "containerd.sock"])
def test_directory_with_the_socket_of_an_engine_is_refused(
    tmp_path: Path, paths: InstancePaths, host: Host, listening: socket.socket, name: str
) -> None:
    path = tmp_path / "engine" / name
    path.parent.mkdir()
    listening.bind(str(path))
    assert refused(path.parent, paths, host) == f"it contains the socket {path}"
    assert refused(path, paths, host) == "it is a socket"


def test_directory_above_the_configured_socket_is_refused(
    tmp_path: Path, paths: InstancePaths, listening: socket.socket
) -> None:
    path = tmp_path / "engine/deep/custom.sock"
    path.parent.mkdir(parents=True)
    listening.bind(str(path))
    host = Host.current({"HOME": "/nonexistent", "DOCKER_HOST": f"unix://{path}"}, None)
    assert refused(tmp_path / "engine", paths, host) == f"it contains the socket {path}"
    host = Host.current({"HOME": "/nonexistent"}, f"unix://{path}")
    assert refused(tmp_path / "engine", paths, host) == f"it contains the socket {path}"


def test_refused_directory_is_found_behind_links(tmp_path: Path, paths: InstancePaths, host: Host) -> None:
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "far").symlink_to("link")
    assert refused(tmp_path / "far/ssl", paths, host) == "/etc belongs to the system"


def test_path_with_a_link_is_refused_with_its_real_path(
    tmp_path: Path, paths: InstancePaths, host: Host
) -> None:
    """An agent that can write a directory above the path could have made the link."""
    (tmp_path / "data/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data")
    reason = f"it contains a symbolic link, and its real path is {tmp_path}/data/deep"
    assert refused(tmp_path / "link/deep", paths, host) == reason


def test_missing_path_is_refused(tmp_path: Path, paths: InstancePaths, host: Host) -> None:
    assert refused(tmp_path / "none", paths, host) == "it does not exist"


def test_file_is_no_directory(tmp_path: Path, paths: InstancePaths, host: Host) -> None:
    (tmp_path / "file").touch()
    assert check_path(named(f"{tmp_path}/file"), paths, host) == f"{tmp_path}/file"
    with pytest.raises(SandboxUnavailable, match="x is not a directory"):
        check_directory(named(f"{tmp_path}/file"), paths, host)


def test_other_directory_of_the_home_is_accepted(home: Path, paths: InstancePaths, host: Host) -> None:
    (home / "shop").mkdir()
    assert check_directory(named(f"{home}//shop/"), paths, host) == f"{home}/shop"


def test_host_is_the_user_of_this_process() -> None:
    host = Host.current({"HOME": "/nonexistent", "DOCKER_HOST": "tcp://127.0.0.1:2375"}, None)
    assert (host.uid, host.gid, host.sockets) == (os.geteuid(), os.getegid(), ())
    assert "/nonexistent" in host.homes
    assert all(re.match("/", home) for home in host.homes)
