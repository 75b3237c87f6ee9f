"""A real Docker engine for the tests of sandboxes.

Tests use the engine that SM_TEST_ENGINE names. Without it, root starts one engine for each checkout. Its data is kept
in `.engine` between runs, so only the first run makes the images (engine_images.py). The last process that uses the
engine stops it. The next run takes over an engine that a killed run left.

A test removes what it makes. A test that stops or kills an engine uses the fixture `private_engine`.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from sm.core.models import Process
from sm.linux.processes import command_line, identify, is_alive, read_stat, signal_process
from tests.waits import until

NO_ENGINE = "unix:///nonexistent/docker.sock"
"""DOCKER_HOST in all other tests: no engine answers there."""

REPOSITORY = Path(__file__).parents[1]
CACHE = REPOSITORY / ".engine"


def missing() -> str:
    """The reason why the tests cannot start an engine; empty if they can."""
    if os.geteuid() != 0:
        return "an engine for tests needs root, or SM_TEST_ENGINE=unix:///var/run/docker.sock"
    programs = [name for name in ("docker", "dockerd", "debootstrap") if shutil.which(name) is None]
    return (
        f"not installed: {', '.join(programs)}; ./check installs them on Debian as root" if programs else ""
    )


def unavailable(reason: str) -> NoReturn:
    """Skip the test; in CI, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextlib.contextmanager
def locked(path: Path, how: int = fcntl.LOCK_EX) -> Iterator[int]:
    """Hold a lock that the kernel releases when this process ends. Raises BlockingIOError with LOCK_NB."""
    path.parent.mkdir(exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
        yield fd
    finally:
        os.close(fd)


class EngineProcess:
    """An engine that tests started, with its own data, socket and pid file. It leaves the firewall unchanged."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        name = hashlib.sha256(os.fsencode(data)).hexdigest()[:8]
        # A short path: the engine makes sockets below it, and the path of a checkout may be long.
        self.run = Path("/tmp") / f"sm-engine-{name}"
        self.socket = self.run / "s"
        self.url = f"unix://{self.socket}"
        self.log = self.run / "log"
        self._namespaces = (
            f"--containerd-namespace={name}",
            f"--containerd-plugins-namespace={name}-plugins",
        )
        self.options = options

    def start(self) -> None:
        """Start the engine if it does not run. Raises RuntimeError with the engine's last lines if it exits."""
        if self.process() is not None:
            return
        self.data.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(mode=0o711, exist_ok=True)  # the socket has a mode of its own
        if self.run.lstat().st_uid != os.geteuid() or self.run.is_symlink():
            raise RuntimeError(f"{self.run} belongs to another user")
        # The engine refuses to start if another process has the pid of a pid file that a killed engine left.
        until(lambda: not self._containerd_runs(), "the containerd of the engine before has ended")
        for path in (self.run / "pid", self._containerd / "containerd.pid", self.socket):
            path.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                [
                    "dockerd", f"--data-root={self.data}", f"--exec-root={self.run / 'exec'}",
                    f"--pidfile={self.run / 'pid'}", f"--host={self.url}", *self._namespaces,
                    "--iptables=false", "--ip6tables=false", "--bridge=none",
                    "--default-address-pool=base=10.213.0.0/16,size=24", "--shutdown-timeout=5", *self.options,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True,
            )  # fmt: skip

        def ready() -> bool:
            if child.poll() is not None:
                lines = self.log.read_text(errors="replace").splitlines()[-5:]
                raise RuntimeError("the engine for tests ended:\n" + "\n".join(lines))
            return self.process() is not None and self.answers()

        until(ready, "the engine answers")
        # Another process may stop the engine. Nobody waits for the child then, and subprocess would warn.
        child.returncode = 0

    def process(self) -> Process | None:
        """The process that listens on the socket, if it uses this data; None without one."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                # Without a timeout connect(2) waits while the engine is busy; with one it fails with EAGAIN.
                connection.connect(str(self.socket))
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid = struct.unpack("3i", peer)[0]
        found = identify(pid)
        return found if found and f"--data-root={self.data}" in command_line(pid) else None

    @property
    def _containerd(self) -> Path:
        return self.run / "exec" / "containerd"

    def _containerd_runs(self) -> bool:
        """True until the containerd of a killed engine has ended, which the kernel kills after the engine."""
        try:
            pid = int((self._containerd / "containerd.pid").read_text())
        except (FileNotFoundError, ValueError):
            return False
        return str(self._containerd / "containerd.toml") in command_line(pid)

    def answers(self) -> bool:
        ping = ["docker", "-H", self.url, "version", "--format", "{{.Server.Version}}"]
        return subprocess.run(ping, capture_output=True, check=False).returncode == 0

    def stop(self, signum: signal.Signals = signal.SIGTERM) -> None:
        """End the engine: with SIGTERM it stops its containers first. Idempotent."""
        if (process := self.process()) is None:
            return
        self.resume()
        signal_process(process, signum)
        until(lambda: _reap(process.pid) or not is_alive(process), "the engine has ended")

    def end(self) -> None:
        """Stop the engine, and remove all its files but its data."""
        self.stop()
        # The engine leaves the mount of its network namespace, and after a crash that of its data.
        targets = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for target in reversed([t for t in targets if f"{t}/".startswith((f"{self.run}/", f"{self.data}/"))]):
            subprocess.run(["umount", target], check=False, capture_output=True)
        shutil.rmtree(self.run, ignore_errors=True)

    def kill(self) -> None:
        """End the engine as a crash does. Its containers go on."""
        self.stop(signal.SIGKILL)

    def hang(self) -> None:
        """Suspend the engine: its socket accepts connections and nothing answers."""
        process = self._signal(signal.SIGSTOP)
        until(
            lambda: (stat := read_stat(process.pid)) is not None and stat.stopped, "the engine is suspended"
        )

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, signum: signal.Signals) -> Process:
        process = self.process()
        assert process is not None
        signal_process(process, signum)
        return process

    def remove_leftovers(self) -> None:
        """Remove the containers and networks of killed runs."""
        if containers := self.run_docker("ps", "--all", "--quiet").split():
            self.run_docker("rm", "--force", "--volumes", *containers)
        self.run_docker("network", "prune", "--force")

    def run_docker(self, *arguments: str) -> str:
        """The output of the command docker, which must succeed."""
        return docker(self.url, *arguments)


def _reap(pid: int) -> bool:
    """Wait for a child that is a zombie; False when it is no child of this process."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return False


def group_of_engine(url: str) -> int:
    """The group whose members may use the engine."""
    return os.stat(url.removeprefix("unix://")).st_gid


@pytest.fixture(scope="session")
def engine() -> Iterator[str]:
    """The URL of a real engine. Without one, the test is skipped; in CI, it fails."""
    with shared_engine() as url:
        yield url


@contextlib.contextmanager
def shared_engine() -> Iterator[str]:
    """The engine that all tests of this checkout use at the same time."""
    if given := os.environ.get("SM_TEST_ENGINE"):
        yield given
        return
    if reason := missing():
        unavailable(reason)
    own = EngineProcess(CACHE / "data")
    with locked(CACHE / "users", fcntl.LOCK_UN) as users:
        with locked(CACHE / "lock"):
            first = _try_lock(users, fcntl.LOCK_EX)
            try:
                own.start()
            except (RuntimeError, OSError) as error:
                unavailable(str(error))
            if first:
                own.remove_leftovers()
            # Other processes that start the engine wait for CACHE/lock, so this does not block.
            fcntl.flock(users, fcntl.LOCK_SH)
        yield own.url
        with locked(CACHE / "lock"):
            if _try_lock(users, fcntl.LOCK_EX):  # no other process uses the engine
                own.end()


def _try_lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@pytest.fixture(scope="session")
def own_engine(engine: str, sandbox_image: str) -> Iterator[EngineProcess]:
    """An engine that no other process uses. It keeps its data, because loading the image takes seconds."""
    if reason := missing():
        unavailable(reason)
    with contextlib.ExitStack() as stack:
        # As many engines as processes that run such tests at the same time.
        for number in range(64):
            with contextlib.suppress(BlockingIOError):
                stack.enter_context(locked(CACHE / f"private-{number}.lock", fcntl.LOCK_EX | fcntl.LOCK_NB))
                break
        yield stack.enter_context(started_anew(CACHE / f"private-{number}", engine, sandbox_image))


@pytest.fixture
def private_engine(own_engine: EngineProcess) -> Iterator[EngineProcess]:
    """An engine with `sandbox_image` for a test that stops, kills or suspends the engine."""
    own_engine.start()
    yield own_engine
    if own_engine.process() is not None:
        own_engine.resume()
        own_engine.remove_leftovers()
        if own_engine.options:
            own_engine.stop()
    own_engine.options = ()


@contextlib.contextmanager
def started_anew(data: Path, engine: str, image: str) -> Iterator[EngineProcess]:
    """An engine without containers, with an image of another engine. Stops one that a killed run left."""
    own = EngineProcess(data)
    if own.process() is not None:
        own.resume()  # a killed run may have left it suspended
        own.stop()  # and with other options
    try:
        own.start()
        own.remove_leftovers()
        _copy_image(engine, own.url, image)
        yield own
    finally:
        if own.process() is not None:
            own.resume()
            own.remove_leftovers()
        own.end()


def image_id(engine: str, tag: str) -> str:
    """The ID of an image; empty when the engine does not have it."""
    return docker(engine, "images", "--quiet", "--no-trunc", tag).strip()


def docker(engine: str, *arguments: str) -> str:
    """The output of the command docker, which must succeed."""
    done = subprocess.run(
        ["docker", "-H", engine, *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def _copy_image(source: str, target: str, tag: str) -> None:
    if image_id(target, tag) == image_id(source, tag):
        return
    save = subprocess.Popen(["docker", "-H", source, "save", tag], stdout=subprocess.PIPE)
    try:
        subprocess.run(["docker", "-H", target, "load"], stdin=save.stdout, check=True, capture_output=True)
    finally:
        assert save.stdout is not None
        save.stdout.close()
        assert save.wait() == 0
