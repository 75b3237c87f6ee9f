"""Protected files that appeared during a session, also over a restart of the daemon."""

import os
from pathlib import Path

import pytest

from sm.paths import InstancePaths
from sm.sandboxes.docker.protection import ProtectionRecords
from sm.sandboxes.path_map import Mount

ID = "1a2b3c4d"
PROTECT = (".mcp.json", ".envrc")


@pytest.fixture
def paths(tmp_path: Path) -> InstancePaths:
    return InstancePaths(f"{tmp_path}/sm/config.yaml", f"{tmp_path}/sm/state")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    # A name that is not UTF-8.
    path = tmp_path / os.fsdecode(b"sh\xf6p")
    path.mkdir()
    return path


def test_file_that_appeared_is_named_after_a_restart_of_the_daemon(paths: InstancePaths, shop: Path) -> None:
    ProtectionRecords(paths).remember(ID, [str(shop)], PROTECT)
    (shop / ".mcp.json").touch()
    (shop / ".envrc").touch()
    mounts = (Mount(f"{shop}/.envrc", f"{shop}/.envrc"),)
    records = ProtectionRecords(paths)
    assert records.appeared(ID, [str(shop)], PROTECT, mounts) == (f"{shop}/.mcp.json",)


def test_next_start_of_a_session_counts_from_its_own_beginning(paths: InstancePaths, shop: Path) -> None:
    records = ProtectionRecords(paths)
    records.remember(ID, [str(shop)], PROTECT)
    (shop / ".envrc").touch()
    records.remember(ID, [str(shop)], PROTECT)
    assert records.appeared(ID, [str(shop)], PROTECT, ()) == ()


def test_session_without_a_record_has_no_changes(paths: InstancePaths, shop: Path) -> None:
    records = ProtectionRecords(paths)
    (shop / ".envrc").touch()
    assert records.appeared(ID, [str(shop)], PROTECT, ()) == ()
    records.remember(ID, [str(shop)], PROTECT)
    (shop / ".mcp.json").touch()
    for _ in range(2):
        records.forget(ID)
    assert records.appeared(ID, [str(shop)], PROTECT, ()) == ()
    assert os.listdir(paths.launch) == []


def test_record_is_private(paths: InstancePaths, shop: Path) -> None:
    ProtectionRecords(paths).remember(ID, [str(shop)], PROTECT)
    (file,) = Path(paths.launch).iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
