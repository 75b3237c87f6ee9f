"""Parsers for the texts of cgroup v1 and v2, and real cgroups of this machine."""

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sm.linux import cgroups
from tests.linux.child_process import IDLE, Start, python
from tests.memory_files import disk_directory
from tests.waits import until

CONTAINER = "8fed2dff0bfb16e1f1e40609aa6ab91c4dbf0b2b9e75960cbdbf3e06de91d038"
OTHER = "1" * 64

V1 = f"""\
9:name=systemd:/docker/{CONTAINER}
8:pids:/docker/{CONTAINER}
4:memory:/docker/{CONTAINER}
2:cpu,cpuacct:/docker/{CONTAINER}
0::/docker/{CONTAINER}
"""
V1_MOUNTS = r"""31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/with\040space rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2_MOUNTS = (
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
)


@pytest.mark.parametrize(
    ("text", "container"),
    [
        (V1, CONTAINER),
        (f"0::/system.slice/docker-{CONTAINER}.scope\n", CONTAINER),
        (f"0::/docker/{CONTAINER}\n", CONTAINER),
        (f"0::/docker/{CONTAINER}/below\n", CONTAINER),
        (f"4:memory:/a.slice/docker-{CONTAINER}.scope\n0::/\n", CONTAINER),
        (f"0::/docker/{OTHER}/docker/{CONTAINER}\n", CONTAINER),  # the engine itself runs in a container
        (f"4:memory:/docker/{CONTAINER}\n8:pids:/docker/{OTHER}\n", None),
        (f"0::/machine.slice/libpod-{CONTAINER}.scope\n", None),
        (f"0::/docker/{CONTAINER}0\n", None),
        (f"0::/docker/{CONTAINER[1:]}\n", None),
        (f"0::/docker/x{CONTAINER}\n", None),
        ("0::/user.slice/user-1000.slice/session-1.scope\n", None),
        ("0::/\n", None),
        ("", None),
        ("nonsense\n", None),
    ],
)
def test_container_in_finds_the_id_in_the_paths_of_both_versions(text: str, container: str | None) -> None:
    assert cgroups.container_in(text) == container


@pytest.mark.parametrize(
    ("path", "of_container"),
    [
        (f"/docker/{CONTAINER}", f"/docker/{CONTAINER}"),
        (f"/docker/{CONTAINER}/sm-01234567/89abcdef", f"/docker/{CONTAINER}"),
        (f"/system.slice/docker-{CONTAINER}.scope/init.scope", f"/system.slice/docker-{CONTAINER}.scope"),
        (f"/docker/{OTHER}/docker/{CONTAINER}/below", f"/docker/{OTHER}/docker/{CONTAINER}"),
        ("/sm-01234567/89abcdef", None),
        ("/", None),
    ],
)
def test_container_paths_end_at_the_innermost_container(path: str, of_container: str | None) -> None:
    expected = {} if of_container is None else {"": of_container}
    assert cgroups.container_paths({"": path, "pids": "/"}) == expected


def test_directory_of_uses_the_hierarchy_of_the_controller_in_version_1() -> None:
    paths, mounts = cgroups.memberships(V1), cgroups.hierarchies(V1_MOUNTS)
    assert cgroups.directory_of("memory", paths, mounts) == f"/sys/fs/cgroup/memory/docker/{CONTAINER}"
    assert cgroups.directory_of("pids", paths, mounts) == f"/sys/fs/cgroup/with space/docker/{CONTAINER}"
    assert cgroups.directory_of("cpuacct", paths, mounts) == f"/sys/fs/cgroup/cpu,cpuacct/docker/{CONTAINER}"


def test_directory_of_uses_the_one_hierarchy_in_version_2() -> None:
    paths = cgroups.memberships(f"0::/system.slice/docker-{CONTAINER}.scope\n")
    mounts = cgroups.hierarchies(V2_MOUNTS)
    for controller in ("memory", "pids"):
        found = cgroups.directory_of(controller, paths, mounts)
        assert found == f"/sys/fs/cgroup/system.slice/docker-{CONTAINER}.scope"


@pytest.mark.parametrize(
    ("path", "root", "directory"),
    [
        ("/a/b", "/a", "/mount/b"),
        ("/a", "/a", "/mount"),
        ("/", "/", "/mount"),
        ("/ab", "/a", None),
        ("/../b", "/", None),
    ],
)
def test_directory_of_is_relative_to_the_mounted_root(path: str, root: str, directory: str | None) -> None:
    assert cgroups.directory_of("memory", {"memory": path}, {"memory": ("/mount", root)}) == directory


def test_directory_of_returns_none_when_the_controller_is_not_mounted() -> None:
    assert cgroups.directory_of("memory", {"memory": "/a"}, {"": ("/mount", "/")}) is None
    assert cgroups.directory_of("memory", {}, {"": ("/mount", "/")}) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("max\n", None), ("9223372036854771712\n", None), ("536870912\n", 536870912), ("0\n", 0)],
)
def test_limit_returns_none_for_no_limit_in_both_versions(text: str, value: int | None) -> None:
    assert cgroups.limit(text) == value


def test_memory_in_use_excludes_the_page_cache_and_includes_tmpfs_in_version_1() -> None:
    stat = cgroups.counters(
        "cache 700\nrss 200\nshmem 100\nactive_file 1\ninactive_file 2\nhierarchical_memory_limit 9000\n"
        "total_cache 700\ntotal_rss 200\ntotal_shmem 100\ntotal_inactive_file 400\ntotal_active_file 200\n"
    )
    assert cgroups.without_cache(900, stat) == 300


def test_memory_in_use_excludes_the_page_cache_and_includes_tmpfs_in_version_2() -> None:
    stat = cgroups.counters(
        "anon 200\nfile 700\nshmem 100\ninactive_file 400\nactive_file 200\nslab_reclaimable 50\nslab 60\n"
    )
    assert cgroups.without_cache(960, stat) == 310
    assert cgroups.without_cache(100, stat) == 0  # the two files are not read at the same moment


@pytest.mark.parametrize(
    "text",
    [
        "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n",
    ],
)
def test_oom_kills_are_counted_in_both_versions(text: str) -> None:
    assert cgroups.counters(text)["oom_kill"] == 3


# ------------------------------------------------------------------------------------------- real cgroups


@dataclass
class RealCgroup:
    """A cgroup of this machine with the form of a container's, in the hierarchies of memory and pids."""

    container: str
    folders: dict[str, Path] = field(default_factory=dict)

    def put(self, pid: int) -> None:
        for folder in set(self.folders.values()):
            (folder / "cgroup.procs").write_text(str(pid))

    def set(self, controller: str, names: tuple[str, ...], value: int) -> None:
        folder = self.folders[controller]
        next(folder / name for name in names if (folder / name).exists()).write_text(str(value))

    def start(self, *argv: str) -> "subprocess.Popen[bytes]":
        """Run a command that is a member before it executes."""
        return subprocess.Popen(argv, preexec_fn=lambda: self.put(os.getpid()), stdout=subprocess.PIPE)


@pytest.fixture
def real() -> Iterator[RealCgroup]:
    mounts = cgroups.hierarchies(Path("/proc/self/mountinfo").read_text())
    made = RealCgroup(uuid.uuid4().hex * 2)
    folders: list[Path] = []
    try:
        for controller in ("memory", "pids"):
            mount = mounts.get(controller, mounts.get(""))
            if mount is None:
                pytest.skip(f"the controller {controller} is not mounted")
            folder = Path(mount[0]) / f"sm-test-{made.container[:8]}" / made.container
            folder.mkdir(parents=True, exist_ok=True)
            folders += [folder, folder.parent]
            made.folders[controller] = folder
            if controller not in mounts and not (folder / f"{controller}.max").exists():
                pytest.skip(f"cgroup v2 does not delegate the controller {controller} to new cgroups")
        yield made
    except PermissionError:
        pytest.skip("only root makes cgroups")
    finally:
        for folder in dict.fromkeys(folders):
            until(lambda folder=folder: removed(folder), "the cgroup is empty")  # type: ignore[misc]


def removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # a process in it is not reaped yet
        return False
    return True


@pytest.mark.processes
def test_cgroup_of_a_process_lists_its_members_and_their_container(real: RealCgroup, start: Start) -> None:
    inside, outside = start(*IDLE), start(*IDLE)
    real.put(inside.pid)
    assert cgroups.container_of(inside.pid) == real.container
    assert cgroups.container_of(outside.pid) != real.container
    cgroup = cgroups.cgroup_of(inside.pid)
    assert cgroup is not None
    assert cgroup.members() == [inside.pid]
    real.set("pids", ("pids.max",), 77)
    real.set("memory", ("memory.max", "memory.limit_in_bytes"), 64 << 20)
    usage = cgroup.usage()
    assert (usage.pids, usage.pids_limit, usage.memory_limit_bytes) == (1, 77, 64 << 20)
    assert usage.memory_bytes is not None
    assert usage.oom_kills == 0


@pytest.mark.processes
@pytest.mark.parametrize(
    ("name", "thawed", "frozen"), [("freezer.state", "THAWED", "FROZEN"), ("cgroup.freeze", "0", "1")]
)
def test_cgroup_is_frozen_when_its_file_says_so(tmp_path: Path, name: str, thawed: str, frozen: str) -> None:
    cgroup = cgroups.Cgroup(None, None, str(tmp_path))
    assert not cgroup.is_frozen()
    for text, is_frozen in ((thawed, False), (frozen, True)):
        (tmp_path / name).write_text(text + "\n")
        assert cgroup.is_frozen() is is_frozen


@pytest.mark.processes
def test_members_of_a_cgroup_include_those_of_a_cgroup_below(real: RealCgroup, start: Start) -> None:
    upper, lower = start(*IDLE), start(*IDLE)
    real.put(upper.pid)
    below = real.folders["pids"] / "below"
    below.mkdir()
    (below / "cgroup.procs").write_text(str(lower.pid))
    cgroup = cgroups.cgroup_of(upper.pid)
    assert cgroup is not None
    assert cgroup.members() == [upper.pid, lower.pid]
    lower.stop()
    until(lambda: removed(below), "the lower cgroup is empty")


@pytest.fixture
def disk_path() -> Iterator[Path]:
    """A directory whose files are no memory of their writer."""
    with disk_directory() as directory:
        yield directory


@pytest.mark.processes
def test_usage_counts_memory_of_processes_and_not_of_files(real: RealCgroup, disk_path: Path) -> None:
    code = (
        "import os, signal\n"
        f"file = open({str(disk_path / 'file')!r}, 'wb')\n"
        "for _ in range(100): file.write(bytes(1 << 20))\n"
        "file.flush(); os.fsync(file.fileno())\n"
        "memory = b'x' * (30 << 20)\n"
        "print('ready', flush=True)\n"
        "signal.pause()"
    )
    with real.start(*python(code)) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            cgroup = cgroups.cgroup_of(child.pid)
            assert cgroup is not None

            def counted() -> bool:
                used = cgroup.usage().memory_bytes
                return used is not None and 30 << 20 <= used < 100 << 20

            # The kernel adds up the counters of its processors some time later.
            until(counted, "the memory of the process is counted, and that of the file is not")
        finally:
            child.kill()


@pytest.mark.processes
def test_usage_counts_processes_killed_for_memory(real: RealCgroup, start: Start) -> None:
    neighbour = start(*IDLE)
    real.put(neighbour.pid)
    real.set("memory", ("memory.max", "memory.limit_in_bytes"), 32 << 20)
    with real.start(*python("memory = b'x' * (100 << 20)")) as child:
        assert child.wait() == -signal.SIGKILL
    cgroup = cgroups.cgroup_of(neighbour.pid)
    assert cgroup is not None
    assert cgroup.usage().oom_kills == 1
    assert cgroup.members() == [neighbour.pid]


@pytest.mark.processes
def test_a_removed_cgroup_has_no_members_and_no_usage(real: RealCgroup, start: Start) -> None:
    child = start(*IDLE)
    real.put(child.pid)
    cgroup = cgroups.cgroup_of(child.pid)
    assert cgroup is not None
    child.stop()
    for folder in set(real.folders.values()):
        until(lambda folder=folder: removed(folder), "the cgroup is empty")  # type: ignore[misc]
    assert cgroup.members() == []
    assert cgroup.usage() == cgroups.CgroupUsage(None, None, None, None, None)


@pytest.mark.processes
def test_a_process_that_is_gone_has_no_cgroup() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert cgroups.container_of(ended.pid) is None
    assert cgroups.cgroup_of(ended.pid) is None
