"""Files below the root directory of a real process."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sm.linux.process_root import ProcessRoot, wait_until_visible
from tests.linux.child_process import Start, python
from tests.waits import until

pytestmark = pytest.mark.processes


@pytest.fixture
def root(tmp_path: Path) -> Iterator[ProcessRoot]:
    """The root of a process that runs in a directory with a shell and its libraries."""
    if os.geteuid() != 0:
        pytest.skip("only root changes the root directory of a process")
    folder = tmp_path / "root"
    programs = ["/bin/sh", "/bin/sleep"]
    libraries = subprocess.check_output(["ldd", *programs], text=True).split()
    for path in {*programs, *(word for word in libraries if word.startswith("/") and not word.endswith(":"))}:
        (folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(path), folder / path[1:])
    (tmp_path / "secret").write_text("of the host")
    (folder / "etc").mkdir()
    (folder / "etc" / "name").write_text("inside\nsecond")
    (folder / "absolute").symlink_to("/etc/name")
    (folder / "above").symlink_to("../../../../../../../../etc/name")
    (folder / "out").symlink_to(str(tmp_path / "secret"))
    (folder / "dots").symlink_to("../secret")
    os.mkfifo(folder / "pipe")
    with subprocess.Popen(["chroot", str(folder), "/bin/sleep", "1000"]) as child:
        try:
            until(lambda: os.readlink(f"/proc/{child.pid}/root") == str(folder), "the process has its root")
            with ProcessRoot(child.pid) as root:
                yield root
        finally:
            child.kill()


def content(root: ProcessRoot, path: str) -> bytes:
    with root.regular_file(path.encode()) as fd:
        return os.read(fd, 100)


@pytest.mark.parametrize(
    "path", ["/etc/name", "/absolute", "/above", "/../../etc/name", "/etc/../../../etc/name"]
)
def test_paths_and_links_start_at_the_root_of_the_process(root: ProcessRoot, path: str) -> None:
    assert content(root, path) == b"inside\nsecond"


@pytest.mark.parametrize("path", ["/out", "/dots", "/../secret", "/nothing", "/etc/name\0x"])
def test_no_path_leads_out_of_the_root(root: ProcessRoot, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        content(root, path)
    with pytest.raises(FileNotFoundError):
        root.status(path.encode())


def test_status_describes_a_link_itself_when_it_does_not_follow(root: ProcessRoot) -> None:
    assert root.status(b"/out", follow=False).st_mode & 0o170000 == 0o120000
    assert root.status(b"/absolute").st_size == len("inside\nsecond")


@pytest.mark.parametrize("path", ["/pipe", "/etc"])
def test_only_a_regular_file_is_read(root: ProcessRoot, path: str) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        content(root, path)


def test_root_of_a_process_that_is_gone_is_an_error() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    with pytest.raises(FileNotFoundError):
        ProcessRoot(ended.pid)


HIDDEN = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE
print("hidden", flush=True)
sys.stdin.readline()
os.execvp("sleep", ["sleep", "1000"])
"""
WAIT = """
import asyncio, sys
from sm.linux.process_root import ProcessRoot, wait_until_visible

async def wait(pid):
    task = asyncio.create_task(wait_until_visible(pid))
    await asyncio.sleep(0)
    print("waits" if not task.done() else "does not wait", flush=True)
    await task
    ProcessRoot(pid).close()
    print("visible", flush=True)

asyncio.run(wait(int(sys.argv[1])))
"""


def unprivileged(code: str) -> tuple[str, ...]:
    """Python code that runs as a process which cannot look into hidden processes, also if this one is of root."""
    return ("setpriv", "--bounding-set=-sys_ptrace", *python(code)) if os.geteuid() == 0 else python(code)


def test_process_is_visible_once_it_runs_a_program_that_does_not_hide(start: Start) -> None:
    """As the first process of a container does, which is at first the program of the runtime."""
    child = start(*unprivileged(HIDDEN))
    waiting = start(*unprivileged(WAIT), str(child.pid))
    assert waiting.printed == ["waits"]
    os.write(child.popen.stdin.fileno(), b"\n")
    assert waiting.popen.stdout.readline() == b"visible\n"


async def test_process_that_is_gone_is_not_waited_for() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    await wait_until_visible(ended.pid)
