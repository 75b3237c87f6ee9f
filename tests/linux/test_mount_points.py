"""The mount points of a process, and those whose directory was removed."""

from pathlib import Path

import pytest

from sm.linux.mount_points import mount_points, removed_mounts
from tests.linux.child_process import Start, start

__all__ = ["start"]


@pytest.mark.processes
def test_removed_mounts_names_the_mount_whose_directory_was_removed(tmp_path: Path, start: Start) -> None:
    kept, lost = tmp_path / "kept point", tmp_path / "lost point"
    sources = [tmp_path / "source 1", tmp_path / "source 2"]
    for directory in (kept, lost, *sources):
        directory.mkdir()
    mounts = 'mount --bind "$1" "$2" && mount --bind "$3" "$4" && echo ready; read line'
    paths = map(str, (sources[0], kept, sources[1], lost))
    child = start("unshare", "--mount", "--map-root-user", "sh", "-c", mounts, "sh", *paths)
    if child.printed != ["ready"]:
        pytest.skip("this user may not mount")
    assert removed_mounts(child.pid) == frozenset()
    sources[1].rmdir()
    sources[1].mkdir()
    assert removed_mounts(child.pid) == {str(lost)}
    assert {str(kept), str(lost)} <= (mount_points(child.pid) or frozenset())
