"""The home directory of a container, in which an agent puts links, pipes and large files."""

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sm.core.states import TrustLevel
from sm.paths import InstancePaths
from sm.sandboxes.home import ContainerHome, homes
from tests.samples import session


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The home directory of the container."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "shadow").write_text("root:x")
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def home(place: Path) -> ContainerHome:
    return ContainerHome(str(place))


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("/home/sandbox/.claude/x.jsonl", ".claude/x.jsonl"),
        ("/home/sandbox//.claude/./x", ".claude/x"),
        ("/home/sandbox/../../etc/shadow", None),
        ("/home/sandboxes/x", None),
        ("/etc/shadow", None),
        ("home/sandbox/x", None),
        ("/home/sandbox/\0", None),
    ],
)
def test_only_paths_below_the_home_directory_are_mapped(
    home: ContainerHome, inside: str, expected: str | None
) -> None:
    assert home.host_path(inside) == (None if expected is None else f"{home.directory}/{expected}")


def test_read_returns_the_beginning_of_a_regular_file(home: ContainerHome, place: Path) -> None:
    (place / ".claude" / "a").write_text("content")
    assert home.read(f"{place}/.claude/a", 4).data == b"cont"
    with (place / "big").open("wb") as file:
        file.truncate(2 << 30)
    assert home.read(f"{place}/big", 10).cut


def replace_directory(home: Path) -> None:
    (home / ".claude").rmdir()
    (home / ".claude").symlink_to(home.parent / "secret")
    (home.parent / "secret" / "a").write_text("x")


ATTACKS: dict[str, Callable[[Path], object]] = {
    "link": lambda home: (home / ".claude" / "a").symlink_to(home.parent / "secret" / "shadow"),
    "link to a directory": replace_directory,
    "pipe": lambda home: os.mkfifo(home / ".claude" / "a"),
    "directory": lambda home: (home / ".claude" / "a").mkdir(),
    "nothing": lambda home: None,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_read_refuses_everything_but_a_regular_file(home: ContainerHome, place: Path, attack: str) -> None:
    ATTACKS[attack](place)
    with pytest.raises(OSError):  # noqa: PT011  the number depends on the attack
        home.read(f"{place}/.claude/a", 100)
    assert not home.has_file(f"{place}/.claude/a")


def test_read_and_write_refuse_paths_outside_of_the_home_directory(home: ContainerHome, place: Path) -> None:
    for path in (f"{place.parent}/secret/shadow", f"{place}/../secret/shadow", str(place)):
        with pytest.raises(OSError):  # noqa: PT011
            home.read(path, 100)
        assert not home.has_file(path)


def test_add_file_makes_directories_and_keeps_an_existing_file(home: ContainerHome, place: Path) -> None:
    home.add_file(f"{place}/a/b/c", b"first", None)
    home.add_file(f"{place}/a/b/c", b"second", None)
    assert (place / "a/b/c").read_bytes() == b"first"
    assert os.listdir(place / "a/b") == ["c"]
    modes = [stat.S_IMODE((place / part).stat().st_mode) for part in ("a", "a/b", "a/b/c")]
    assert modes == [0o700, 0o700, 0o600]


def test_add_file_makes_the_home_directory(tmp_path: Path) -> None:
    place = tmp_path / "ws" / "shop" / "home"
    ContainerHome(str(place)).add_file(f"{place}/a", b"x", None)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_add_file_follows_no_link(home: ContainerHome, place: Path) -> None:
    target = place.parent / "secret"
    (place / "link").symlink_to(target)
    (place / "dangling").symlink_to(target / "new")
    with pytest.raises(OSError):  # noqa: PT011
        home.add_file(f"{place}/link/a", b"x", None)
    home.add_file(f"{place}/dangling", b"x", None)
    assert os.listdir(target) == ["shadow"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change owners")
def test_new_files_belong_to_the_user_of_the_container(home: ContainerHome, place: Path) -> None:
    home.add_file(f"{place}/.claude/deep/a", b"x", (2345, 2346))
    owners = [
        ((place / p).stat().st_uid, (place / p).stat().st_gid) for p in (".claude/deep", ".claude/deep/a")
    ]
    assert owners == [(2345, 2346)] * 2
    assert (place / ".claude").stat().st_uid == 0  # it existed


def test_only_sandboxed_sessions_have_a_container_home() -> None:
    home_of = homes(InstancePaths("/c", "/state"))
    assert home_of(session("1a2b3c4d")) is None
    boxed = replace(session("1a2b3c4d"), effective_mode=TrustLevel.SANDBOXED)
    found = [home_of(boxed), home_of(replace(boxed, workspace="shop"))]
    assert [home and home.directory for home in found] == ["/state/ws-default/home", "/state/ws/shop/home"]
