"""Every property of a running container, as a process inside and as the engine sees it, and attacks from inside."""

import json
import os
import shutil
import signal
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sm.linux.cgroups import cgroup_of
from sm.linux.processes import identify, is_alive
from sm.sandboxes.containers import Container, ContainerEventKind
from tests.sandboxes.docker.conftest import USER, Open, Sandboxes

pytestmark = pytest.mark.processes

MIB = 1 << 20


def script(sandboxes: Sandboxes, container: Container, code: str, check: bool = True) -> str:
    """The output of Python code in the container."""
    return sandboxes.inside(container, "python3", "-c", f"import os, socket, sys\n{code}", check=check)


def errors_inside(sandboxes: Sandboxes, container: Container, *codes: str) -> dict[str, str]:
    """The name of the OSError that each Python code raises in the container; `none` without one."""
    program = (
        "import errno, json\n"
        "def error(code):\n"
        "    try: exec(code, dict(os=os, socket=socket))\n"
        "    except OSError as error: return errno.errorcode[error.errno]\n"
        "    return 'none'\n"
        f"print(json.dumps({{code: error(code) for code in {codes!r}}}))"
    )
    errors: dict[str, str] = json.loads(script(sandboxes, container, program))
    return errors


def writes(*paths: str) -> list[str]:
    return [f"os.write(os.open({path!r}, os.O_WRONLY | os.O_CREAT), b'-17')" for path in paths]


def libc_error(call: str) -> str:
    """Code that makes a call of the C library and raises its error."""
    return (
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"if libc.{call} == -1: raise OSError(ctypes.get_errno(), '')"
    )


def mounts_inside(sandboxes: Sandboxes, container: Container) -> dict[str, tuple[str, set[str]]]:
    """The file system type and the options of each mount point."""
    lines = (line.split() for line in sandboxes.inside(container, "cat", "/proc/mounts").splitlines())
    return {fields[1]: (fields[2], set(fields[3].split(","))) for fields in lines}


def described(sandboxes: Sandboxes, container: Container) -> Mapping[str, Any]:
    """The container as the engine describes it."""
    found: Mapping[str, Any] = json.loads(sandboxes.docker("inspect", container.id))[0]
    return found


@pytest.fixture
async def made(sandboxes: Sandboxes) -> Container:
    return await sandboxes.containers.ensure(sandboxes.workspace())


# Properties


async def test_processes_have_no_capabilities_and_cannot_gain_any(
    sandboxes: Sandboxes, made: Container
) -> None:
    inside = sandboxes.inside(made, "cat", "/proc/self/status")
    first = Path(f"/proc/{made.init.pid}/status").read_text()
    for text in (inside, first):
        status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(status[name], 16) == 0, name
        assert (status["NoNewPrivs"], status["Seccomp"].strip()) == ("1", "2")
        assert status["Uid"].split() == [str(USER)] * 4
        assert status["Gid"].split() == [str(USER)] * 4
        assert status["Groups"].strip() in ("", str(USER))


async def test_engine_describes_a_hardened_container(sandboxes: Sandboxes, made: Container) -> None:
    found = described(sandboxes, made)
    host, config = found["HostConfig"], found["Config"]
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]  # and not seccomp=unconfined
    assert host["ReadonlyRootfs"] is True and host["Init"] is True and host["Privileged"] is False
    assert host["Memory"] == host["MemorySwap"] == 4096 * MIB and host["MemoryReservation"] == 512 * MIB
    assert host["PidsLimit"] == 1024
    assert host["CpuQuota"] / host["CpuPeriod"] == 2.0
    assert host["IpcMode"] == "private" and host["PidMode"] == "" and host["UTSMode"] == ""
    assert host["LogConfig"]["Type"] == "none"
    assert not host["Devices"] and not host["PortBindings"] and not host["Binds"] and not host["VolumesFrom"]
    assert "nproc" not in [limit["Name"] for limit in host["Ulimits"] or ()]
    assert host["RestartPolicy"]["Name"] in ("", "no")
    assert config["User"] == f"{USER}:{USER}" and config["Hostname"] == "shop"
    assert config["Labels"].items() >= {
        "app": "sm", "type": "workspace", "workspace": "shop", "instance": sandboxes.instance, "config": made.config,
    }.items()  # fmt: skip


async def test_network_belongs_to_the_instance_and_separates_its_containers(
    sandboxes: Sandboxes, made: Container
) -> None:
    name = f"sm-{sandboxes.instance[:8]}"
    assert list(described(sandboxes, made)["NetworkSettings"]["Networks"]) == [name]
    network = json.loads(sandboxes.docker("network", "inspect", name))[0]
    assert network["Driver"] == "bridge"
    assert network["Options"]["com.docker.network.bridge.enable_icc"] == "false"
    assert network["Labels"] == {"app": "sm", "type": "network", "instance": sandboxes.instance}


async def test_container_without_network_has_the_loopback_device_only(sandboxes: Sandboxes) -> None:
    made = await sandboxes.containers.ensure(sandboxes.workspace(network="none"))
    assert script(sandboxes, made, "print(*(name for _, name in socket.if_nameindex()))") == "lo"


async def test_limits_are_those_of_its_cgroup(sandboxes: Sandboxes) -> None:
    made = await sandboxes.containers.ensure(sandboxes.workspace(memory="600m", pids=150, cpus=0.5))
    cgroup = cgroup_of(made.init.pid)
    assert cgroup is not None
    usage = cgroup.usage()
    assert (usage.memory_limit_bytes, usage.pids_limit) == (600 * MIB, 150)
    assert made.init.pid in cgroup.members()
    cpu = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us /sys/fs/cgroup/cpu.max"
    quota, period = sandboxes.inside(made, "sh", "-c", f"cat {cpu} 2>/dev/null || true").split()
    assert int(quota) / int(period) == 0.5


async def test_nofile_is_clamped_to_the_limit_of_the_engine(sandboxes: Sandboxes) -> None:
    largest = (await sandboxes.engine.facts()).nofile_max
    made = await sandboxes.containers.ensure(sandboxes.workspace(nofile=300))
    assert sandboxes.inside(made, "sh", "-c", "ulimit -n; ulimit -Hn").split() == ["300", "300"]
    if largest is not None:
        clamped = await sandboxes.containers.ensure(
            sandboxes.override(sandboxes.workspaces["shop"], nofile=largest + 1)
        )
        assert sandboxes.inside(clamped, "sh", "-c", "ulimit -Hn") == str(largest)


async def test_mounts_and_their_modes(sandboxes: Sandboxes) -> None:
    workspace = sandboxes.workspace()
    hooks = Path(workspace.directory) / ".git" / "hooks"
    hooks.mkdir(parents=True)
    for folder in (hooks.parent, hooks):
        os.chown(folder, USER, USER)
    extra = sandboxes.root / "extra"
    extra.mkdir()
    made = await sandboxes.containers.ensure(sandboxes.override(workspace, mounts=[str(extra)]))
    mounts = mounts_inside(sandboxes, made)
    writable = {"/home/sandbox", workspace.directory}
    read_only = {"/opt/sm", "/run/sm/launch", "/run/sm/socket", str(hooks), str(extra)}
    assert all("rw" in mounts[path][1] for path in writable)
    assert all("ro" in mounts[path][1] for path in read_only)
    by_engine = {mount["Destination"]: mount["RW"] for mount in described(sandboxes, made)["Mounts"]}
    assert {path for path, is_writable in by_engine.items() if is_writable} >= writable
    assert {path for path, is_writable in by_engine.items() if not is_writable} == read_only
    assert {mount.target: mount.writable for mount in made.mounts} == by_engine
    own = sandboxes.paths.sandbox("shop")
    assert (os.stat(own.home).st_uid, stat.S_IMODE(os.stat(own.home).st_mode)) == (USER, 0o700)
    sandboxes.inside(made, "touch", "/home/sandbox/file", f"{workspace.directory}/file")
    assert os.stat(f"{own.home}/file").st_uid == os.stat(f"{workspace.directory}/file").st_uid == USER


async def test_tmpfs_are_small_and_belong_to_the_user(sandboxes: Sandboxes, made: Container) -> None:
    mounts = mounts_inside(sandboxes, made)
    expected = {"/tmp": (0, 0o1777), "/run": (USER, 0o755), "/run/sm": (0, 0o755), "/scratch": (USER, 0o700)}
    for path, owner_and_mode in expected.items():
        kind, options = mounts[path]
        assert kind == "tmpfs" and {"rw", "nosuid", "nodev"} <= options
        owner, mode = sandboxes.inside(made, "stat", "-c", "%u %a", path).split()
        # Some runtimes keep the mode that the directory has in the image.
        assert (int(owner), int(mode, 8) | (0o055 if path == "/run" else 0)) == owner_and_mode, path
    for path in ("/tmp", "/scratch"):
        assert "noexec" not in mounts[path][1]
    sizes = sandboxes.inside(made, "df", "--output=size", "-B1M", "/tmp", "/scratch").split()[1:]
    assert sizes == ["256", "512"] or sizes[-2:] == ["256", "512"]


# Attacks


async def test_root_file_system_is_read_only(sandboxes: Sandboxes, made: Container) -> None:
    assert "ro" in mounts_inside(sandboxes, made)["/"][1]
    paths = (
        "/x", "/etc/x", "/usr/bin/x", "/var/tmp/x", "/opt/sm/x", "/run/sm/x", "/run/sm/launch/x", "/run/sm/socket/x",
    )  # fmt: skip
    errors = errors_inside(sandboxes, made, *writes(*paths))
    assert len(errors) == len(paths) and set(errors.values()) <= {"EROFS", "EACCES"}, errors


async def test_system_calls_of_the_super_user_are_refused(sandboxes: Sandboxes, made: Container) -> None:
    codes = [
        libc_error("mount(b'none', b'/tmp', b'tmpfs', 0, None)"),
        libc_error("umount2(b'/run/sm/launch', 0)"),
        libc_error("unshare(0x10000000)"),  # CLONE_NEWUSER
        libc_error("unshare(0x00020000)"),  # CLONE_NEWNS
        libc_error("setns(os.open('/proc/1/ns/mnt', os.O_RDONLY), 0)"),
        libc_error("pivot_root(b'/tmp', b'/tmp')"),
        libc_error("chroot(b'/tmp')"),
        libc_error("sethostname(b'x', 1)"),
        libc_error("swapon(b'/tmp/x', 0)"),
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "os.setuid(0)",
        "os.setgroups([0])",
        "os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0))",
        "os.mknod('/scratch/memory', 0o20600, os.makedev(1, 1))",
        "os.chown('/scratch', 0, 0)",
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    ]
    errors = errors_inside(sandboxes, made, *codes)
    assert len(errors) == len(codes) and set(errors.values()) <= {"EPERM", "EACCES"}, errors


async def test_setuid_program_gains_nothing(sandboxes: Sandboxes, made: Container) -> None:
    program = Path(sandboxes.workspaces["shop"].directory) / "id"
    shutil.copyfile(shutil.which("id") or "/usr/bin/id", program)
    os.chmod(program, 0o4755)  # noqa: S103  # the attack: it belongs to root
    assert sandboxes.inside(made, str(program), "-u") == str(USER)


async def test_host_processes_are_neither_seen_nor_traced(sandboxes: Sandboxes, made: Container) -> None:
    pids = {int(name) for name in sandboxes.inside(made, "ls", "/proc").split() if name.isdecimal()}
    own = Path("/proc/self/comm").read_text().strip()
    names = {sandboxes.inside(made, "cat", f"/proc/{pid}/comm", check=False) for pid in pids}
    assert len(pids) < 10 and own not in names
    outside = max(pids) + 1000
    attempts = libc_error(f"ptrace(16, {outside}, 0, 0)"), f"os.kill({outside}, 9)"
    assert set(errors_inside(sandboxes, made, *attempts).values()) == {"ESRCH"}


async def test_settings_of_the_kernel_cannot_be_written(sandboxes: Sandboxes, made: Container) -> None:
    paths = (
        "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward",
        "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory.max", "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled",
    )  # fmt: skip
    # Not each kernel has each file: then the directory refuses a new one.
    errors = errors_inside(sandboxes, made, *writes(*paths))
    assert len(errors) == len(paths) and set(errors.values()) <= {"EROFS", "EACCES", "EPERM", "ENOENT"}, (
        errors
    )


async def test_secrets_of_the_kernel_and_of_the_host_cannot_be_read(
    sandboxes: Sandboxes, made: Container
) -> None:
    for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug"):
        assert sandboxes.inside(made, "sh", "-c", f"head -c 100 {path} 2>/dev/null || true") == "", path
    assert sandboxes.inside(made, "sh", "-c", "ls /sys/firmware 2>/dev/null || true") == ""
    host = [sandboxes.paths.database, "/var/run/docker.sock", sandboxes.url.removeprefix("unix://")]
    attempts = [f"os.stat({path!r})" for path in (*host, str(sandboxes.root / "sm"), "/root/.bashrc")]
    errors = errors_inside(sandboxes, made, *attempts, "open('/etc/shadow').read()")
    assert set(errors.values()) <= {"ENOENT", "EACCES"}, errors


async def test_devices_are_those_without_hardware(sandboxes: Sandboxes, made: Container) -> None:
    allowed = {
        "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
        "urandom", "zero", "console",
    }  # fmt: skip
    assert set(sandboxes.inside(made, "ls", "/dev").split()) <= allowed


async def test_full_scratch_is_an_error_of_the_writer_only(sandboxes: Sandboxes) -> None:
    made = await sandboxes.containers.ensure(sandboxes.workspace(scratch="1m"))
    fill = "with open('/scratch/x', 'wb') as file: file.write(bytes(2 << 20))"
    assert errors_inside(sandboxes, made, fill) == {fill: "ENOSPC"}
    assert sandboxes.inside(made, "sh", "-c", "echo ok >/tmp/x && cat /tmp/x") == "ok"


async def test_fork_bomb_ends_at_the_limit_while_another_container_goes_on(sandboxes: Sandboxes) -> None:
    bombed = await sandboxes.containers.ensure(sandboxes.workspace("bombed", pids=128))
    other = await sandboxes.containers.ensure(sandboxes.workspace("other"))
    # Each process starts another one until the kernel refuses, and then waits.
    bomb = "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(1000)"
    sandboxes.start_inside(bombed, "python3", "-c", bomb)
    cgroup = cgroup_of(bombed.init.pid)
    assert cgroup is not None
    await sandboxes.until(lambda: cgroup.usage().pids == 128, "the limit is reached")
    assert sandboxes.inside(other, "echo", "works") == "works"
    assert (await sandboxes.containers.ensure(sandboxes.workspaces["other"])).id == other.id
    members = bombed.members()
    assert len(members) == 126
    await sandboxes.containers.remove("bombed", force=True)
    assert not any(is_alive(member) for member in members)


async def test_out_of_memory_ends_one_process_and_is_told(sandboxes: Sandboxes) -> None:
    full = await sandboxes.containers.ensure(sandboxes.workspace("full", memory="512m"))
    other = await sandboxes.containers.ensure(sandboxes.workspace("other"))
    sandboxes.follow()
    await sandboxes.containers.adopt()
    sandboxes.start_inside(full, "sleep", "1000")
    (neighbour,) = full.members()
    command = "data = []\nwhile True: data.append(b'x' * (1 << 20))"
    cgroup = cgroup_of(full.init.pid)
    assert cgroup is not None

    def told() -> bool:
        """The stream may begin after the first event, so another process uses up the memory then."""
        assert script(sandboxes, full, command, check=False) is not None
        return any(kind is ContainerEventKind.OOM for kind, _ in sandboxes.events)

    await sandboxes.until(told, "the event")
    assert (cgroup.usage().oom_kills or 0) >= 1
    assert {container.id for _, container in sandboxes.events} == {full.id}
    assert identify(neighbour.pid) == neighbour
    assert is_alive(full.init) and is_alive(other.init)
    os.kill(neighbour.pid, signal.SIGKILL)


async def test_containers_of_two_instances_share_nothing(
    sandboxes: Sandboxes, made: Container, open_sandboxes: Open
) -> None:
    other = open_sandboxes(sandboxes.url, sandboxes.settings["image"])
    second = await other.containers.ensure(other.workspace())
    assert made.name != second.name
    assert not {mount.source for mount in made.mounts} & {mount.source for mount in second.mounts}
    networks = [
        list(described(s, c)["NetworkSettings"]["Networks"]) for s, c in ((sandboxes, made), (other, second))
    ]
    assert networks[0] != networks[1]
    assert await other.containers.remove_all() == (second.name,)
    assert is_alive(made.init)
