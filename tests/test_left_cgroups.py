"""An ended instance of a test or of a benchmark leaves no cgroups, which would slow down each later daemon."""

from pathlib import Path

import pytest

import bench.instance
from tests.instance import Instance
from tests.left_cgroups import cgroups_of


def made_by(state: Path) -> list[Path]:
    made = list(cgroups_of(state / "sm.db"))
    if not made:
        pytest.skip("no cgroup can be made here")
    return made


def test_instance_of_a_test_leaves_no_cgroup_when_its_daemon_was_killed() -> None:
    with Instance() as instance:
        instance.start_daemon()
        session_id = instance.spawn("Sh", "sleep 1000")["session_id"]
        instance.in_status(session_id, "running")
        made = made_by(instance.state)
        instance.sm("kill", session_id)
        instance.kill_daemon()
    assert not [path for path in made if path.exists()]


def test_instance_of_a_benchmark_leaves_no_cgroup() -> None:
    with bench.instance.Instance() as instance:
        instance.spawn()
        made = made_by(instance.state)
    assert not [path for path in made if path.exists()]
