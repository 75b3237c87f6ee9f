"""The parts that all sandboxes share: the launch script, its files, the wait for the agent, reasons of failed starts.

A terminal runs the launch script. The script changes to the working directory, exports the agent's environment and
`exec`s the agent in its own process. Secrets are in the script (0600) and never in an argv, because ps shows argvs.
A script that could not exec the agent writes a report, which `parse_failure` reads.
"""

import asyncio
import contextlib
import errno
import logging
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from sm.core.backoff import Backoff
from sm.core.dataclass import dataclass
from sm.core.models import Launch
from sm.errors import AgentStartFailed, ProgramMissing, StorageFull, UsageError
from sm.linux import inotify
from sm.linux.files import directory_below
from sm.linux.process_limits import UMASK, UNLIMITED, raise_oom_score

log = logging.getLogger(__name__)

# The first pause between checks. Polling covers cases that inotify misses (network mounts, exhausted limits).
_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The script's exit code when it cannot enter the working directory. `exec` fails with 126 or 127, and with 2 when the
# shell itself refuses the arguments.
NO_DIRECTORY = 125
FAILED = ".failed"
"""The suffix of the report of a failed start. The next ones are those of `InstancePaths`."""
_OOM_SCORE = 200
"""`oom_score_adj` of agents: when memory runs out, the kernel ends an agent before the daemon and the terminal server.

A process may raise its own, and its children inherit it.
"""
# POSIX knows only -f. The others are the same in dash, bash and busybox sh, except that of the processes.
_ULIMITS = {
    "cpu": ("t", 1),
    "fsize": ("f", 512),
    "data": ("d", 1024),
    "stack": ("s", 1024),
    "core": ("c", 512),
    "nofile": ("n", 1),
    "memlock": ("l", 1024),
    "as": ("v", 1024),
    "nproc": ("up", 1),  # last: the substitutions below fork
}
"""The options of `ulimit` for a resource, of which a shell has one, and the unit in bytes, files or seconds."""
_PROMPT, _SERVERS, _TOKEN = ".prompt", ".mcp.json", ".token"
_NEW = ".new"


# -------------------------------------------------------------------------------------- the script and its files


def script(launch: Launch, failed: str, *, mark: str = "$$", setup: Sequence[str] = ()) -> bytes:
    """The launch script, for dash, bash and busybox sh. Raises UsageError for values that no script can pass on.

    `failed`: the path of the report of a failed start. `mark`: a word of the shell that identifies the start in the
    report. `setup`: lines to run before the script enters the working directory.
    """
    quote = shlex.quote
    for name in launch.environment:
        if not _NAME.fullmatch(name):
            raise UsageError(f"invalid environment variable name {name!r}", "use letters, digits and _")
    # The trap runs only after a failure: a successful exec leaves no shell.
    program, folder = quote(launch.argv[0]), quote(launch.working_dir)
    report = f'printf "%s\\0" "{mark}" "$?" "$PATH" {program} {folder} >{quote(failed)}'
    lines = (
        f"trap {quote(report)} EXIT",
        *setup,
        # tmux silently starts in $HOME when the directory is gone.
        f"cd -- {folder} || exit {NO_DIRECTORY}",
        "unset OLDPWD SHLVL",
        "set -- " + " ".join(map(quote, launch.argv)),
        # bash skips the trap when exec fails, unless execfail is set.
        "if command -v shopt >/dev/null; then shopt -s execfail; fi",
        *(f"export {name}={quote(value)}" for name, value in launch.environment.items()),
        *_limit_lines(launch.process_limits),
        'exec "$@"',
        "",
    )
    text = "\n".join(lines).encode("utf-8", "surrogateescape")
    if b"\0" in text:
        raise UsageError("a command and its environment must not contain a NUL character")
    return text


def _limit_lines(limits: Mapping[str, int]) -> Iterator[str]:
    """The lines that set the OOM score, the umask and the soft limits, each at most as high as the hard limit."""
    yield raise_oom_score(_OOM_SCORE)
    for name, (options, unit) in _ULIMITS.items():
        if name in limits:
            value = "unlimited" if limits[name] == UNLIMITED else -(-limits[name] // unit)
            wanted = [f"ulimit -S -{option} {value}" for option in options]
            # A hard limit may be lower, because the terminal server was started with that one.
            at_most = [f'ulimit -S -{option} "$(ulimit -H -{option})"' for option in options]
            yield f"{{ {' || '.join(wanted + at_most)}; }} 2>/dev/null"
    if UMASK in limits:
        yield f"umask {limits[UMASK]:04o}"


def write_files(
    session_id: str,
    folder: str,
    text: bytes,
    launch: Launch,
    token: str | None,
    *,
    servers_file: str,
    owner: tuple[int, int] | None = None,
) -> None:
    """Write the script, and the files of the prompt, the MCP servers and the token, as far as needed, all 0600.

    `folder`: their directory on the host, made with 0700. `text`: the script. `servers_file`: the path of the file of
    MCP servers as the agent sees it; the file stays as long as the session, because the agent reads it again to
    reconnect. `owner`: the user and group of the files and of the folder, if not those of this process. The owner may
    change the folder meanwhile, so no link in it is followed.

    Raises StorageFull, with nothing half-written, and OSError.
    """
    contents = {session_id: text}
    if launch.prompt_file is not None:
        contents[session_id + _PROMPT] = launch.prompt_file.encode("utf-8", "surrogateescape")
    if launch.mcp_config is not None:
        contents[session_id + _SERVERS] = launch.mcp_config.encode("utf-8", "surrogateescape")
    if token is not None:
        contents[session_id + _TOKEN] = token.encode()
    with full_disk(session_id, folder), _private_directory(folder, owner) as directory:
        _write_all(directory, contents, owner)
        if launch.mcp_config is None and servers_file not in launch.argv:
            _remove(directory, session_id + _SERVERS)  # from an earlier start


@contextlib.contextmanager
def full_disk(session_id: str, folder: str) -> Iterator[None]:
    """Raise StorageFull for an OSError of a full disk. Other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFull(
            f"the disk is full: cannot write the files of session {session_id} to {folder}",
            "free disk space, then try again",
        ) from error


@contextlib.contextmanager
def _private_directory(folder: str, owner: tuple[int, int] | None) -> Iterator[int]:
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with directory_below(folder, ()) as directory:
        if owner is not None:
            os.fchown(directory, *owner)
            os.fchmod(directory, 0o700)
        yield directory


def _write_all(directory: int, contents: Mapping[str, bytes], owner: tuple[int, int] | None) -> None:
    """Write files atomically; on an error remove the files that did not exist before.

    An existing file belongs to a start before a crash, and its agent may be using it. No fsync: after a power loss
    nobody reads the files.
    """
    present = set(os.listdir(directory))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    if owner is not None:
        flags |= os.O_EXCL
    try:
        for name, content in contents.items():
            if owner is not None:
                _remove(directory, name + _NEW)  # from a crash, or a link that the owner has made
            with open(os.open(name + _NEW, flags, 0o600, dir_fd=directory), "wb") as file:
                if owner is not None:
                    os.fchown(file.fileno(), *owner)
                file.write(content)
            os.rename(name + _NEW, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        _remove(directory, *(set(contents) - present), *(name + _NEW for name in contents))
        raise


def _remove(directory: int, *names: str) -> None:
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)


def remove_script(session_id: str, folder: str) -> None:
    """Remove the script, which nothing reads once the agent runs. Idempotent."""
    with contextlib.suppress(FileNotFoundError), directory_below(folder, ()) as directory:
        _remove(directory, session_id)


def remove_files(session_id: str, folder: str) -> None:
    """Remove the files of `write_files`, and the report of a failed start. Idempotent."""
    names = [session_id + suffix for suffix in ("", _PROMPT, _SERVERS, _TOKEN)]
    with contextlib.suppress(FileNotFoundError), directory_below(folder, ()) as directory:
        _remove(directory, *names, *(name + _NEW for name in names), session_id + FAILED)


# --------------------------------------------------------------------------------------------- waiting for the agent


class LaunchWatch:
    """Repeats checks of starts until they succeed. To be made in the event loop that uses it.

    A check reads /proc, so that repeated calls give the same answer. inotify only triggers the next check: the shell
    holds the script open with close-on-exec, so a close means exec.
    """

    def __init__(self) -> None:
        self._files: inotify.FileWatch | None = None
        self._closed: dict[str, asyncio.Event] = {}

    async def wait_until(self, path: str, is_over: Callable[[], bool], bound_s: float) -> bool:
        """Wait until `is_over` returns True, at most `bound_s`; `path`: the script. Returns False after that time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + bound_s
        folder, name = os.path.split(path)
        closed = self._closed.setdefault(name, asyncio.Event())
        self._listen(folder)
        try:
            backoff = Backoff(_PAUSE_S, _LONGEST_PAUSE_S)
            pause_s = backoff.next_s()
            while True:
                closed.clear()
                if is_over():
                    return True
                if loop.time() > deadline:
                    return False
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await closed.wait()
                        continue
                pause_s = backoff.next_s()
        finally:
            self._closed.pop(name, None)

    def _listen(self, folder: str) -> None:
        try:
            if self._files is None:
                self._files = inotify.FileWatch()
            # Repeated for every start: it takes a microsecond, and the directory may be a new one.
            self._files.add(folder, inotify.IN_CLOSE_NOWRITE, self._on_closed)
        except OSError as error:
            log.debug("could not watch the launch directory", extra={"sm_signal": str(error)})

    def _on_closed(self, mask: int, name: str) -> None:
        for waiting, closed in self._closed.items():
            if waiting == name or mask & inotify.IN_Q_OVERFLOW:
                closed.set()

    def close(self) -> None:
        """Stop watching files. Idempotent; agents keep running."""
        if self._files is not None:
            self._files.close()
            self._files = None


def late_start(session_id: str, bound_s: float) -> AgentStartFailed:
    return AgentStartFailed(
        f"the agent of session {session_id} did not start within {bound_s:.0f} s",
        f"look at the terminal: sm attach {session_id}; a frequent cause is a slow file system",
    )


# ------------------------------------------------------------------------------- why an agent could not start

_NOT_ON_PATH = "no such program on the agent's PATH"
_NO_FILE = "no such file"
_ELF = b"\x7fELF"
_THIS_PROGRAM = b"/proc/self/exe"
"""A program that runs on this machine, which is also that of its containers."""


class FileView(Protocol):
    """The files as the agent sees them. Paths are absolute."""

    def status(self, path: bytes, *, follow: bool = True) -> os.stat_result:
        """As stat(2), without `follow` as lstat(2). Raises OSError."""

    def is_executable(self, path: bytes) -> bool:
        """True when the agent may execute the file; False also when there is none."""

    def first_line(self, path: bytes) -> bytes:
        """At most 4096 bytes. Raises OSError."""


class HostFiles:
    """`FileView` of this host."""

    def status(self, path: bytes, *, follow: bool = True) -> os.stat_result:
        return os.stat(path, follow_symlinks=follow)

    def is_executable(self, path: bytes) -> bool:
        return os.access(path, os.X_OK)

    def first_line(self, path: bytes) -> bytes:
        with open(path, "rb") as content:
            return content.readline(4096)


@dataclass(frozen=True, slots=True)
class StartFailure:
    """The report of a launch script that could not exec the agent."""

    mark: str
    """Identifies the start; see `script`."""
    status: int
    """The exit code of the script."""
    path: bytes
    program: bytes
    working_dir: bytes

    def error(self, files: FileView) -> AgentStartFailed:
        """The error for people, explained from the file system."""
        if self.status == NO_DIRECTORY:
            why = _why_not_entered(self.working_dir, files)
            return AgentStartFailed(f"cannot enter working directory {shown(self.working_dir)}: {why}")
        why_not, hint = _why_not_run(self, files)
        failure = ProgramMissing if why_not in (_NOT_ON_PATH, _NO_FILE) else AgentStartFailed
        reason = why_not or f"the start failed with exit code {self.status}"
        return failure(f"cannot run {shown(self.program)}: {reason}", hint)


def parse_failure(report: bytes) -> StartFailure | None:
    """The content of a script's report; None when it is not complete. An agent may have written it."""
    fields = report.split(b"\0")
    if len(fields) < 6 or not (fields[0].isdigit() and fields[1].isdigit() and len(fields[1]) <= 3):
        return None
    mark, status, path, program, working_dir = fields[:5]
    return StartFailure(mark.decode(), int(status), path, program, working_dir)


def shown(path: bytes) -> str:
    text = path.decode("utf-8", "backslashreplace")
    return text if text.isprintable() and text else repr(text)


def _why_not_entered(folder: bytes, files: FileView) -> str:
    try:
        files.status(folder + b"/.")
    except FileNotFoundError:
        return "no such directory"
    except NotADirectoryError:
        return "not a directory"
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "permission denied"


def _why_not_run(failure: StartFailure, files: FileView) -> tuple[str | None, str | None]:
    """Explain from the file system why a program could not be executed, as (reason, hint)."""
    program = failure.program
    if not program:
        return "the program has no name", None
    if b"/" in program:
        candidates = [os.path.join(failure.working_dir, program)]
    else:
        parts = failure.path.split(b":")
        candidates = [os.path.join(failure.working_dir, part, program) for part in parts]
    existing = [file for file in candidates if _kind(files, file, follow=False)]
    if not existing:
        if b"/" in program:
            return _missing(candidates[0], files), None
        return _NOT_ON_PATH, f"the agent's PATH is {shown(failure.path)}"
    # The shell runs the first executable file.
    runnable = (file for file in existing if _kind(files, file) == stat.S_IFREG and files.is_executable(file))
    file = next(runnable, existing[0])
    kind = _kind(files, file)
    if kind == stat.S_IFDIR:
        return "the path is a directory", None
    if not kind:
        return _missing(file, files), None
    if not files.is_executable(file):
        return "permission denied, the file is not executable", f"chmod +x {shlex.quote(shown(file))}"
    with contextlib.suppress(OSError):
        first = files.first_line(file)
        if first.startswith(b"#!") and first[2:].split():
            interpreter = first[2:].split()[0]
            if not files.is_executable(interpreter):
                return f"its interpreter {shown(interpreter)} is missing or not executable", None
        elif first.startswith(_ELF) and failure.status == 127:  # shells exit with 127 for ENOENT
            return "the program is for another system, or its loader is missing", None
        elif first.startswith(_ELF) and _machine_of(first) != _machine_of(
            HostFiles().first_line(_THIS_PROGRAM)
        ):
            return "Exec format error: the program is damaged or for another machine", "install it again"
    return None, None


def _machine_of(content: bytes) -> tuple[bytes, bytes]:
    """The word size with the byte order, and the kind of machine, in the header of an ELF program (elf(5))."""
    return content[4:6], content[18:20]


def _kind(files: FileView, path: bytes, *, follow: bool = True) -> int:
    """The type of a file (stat.S_IFMT); 0 when there is none, or it cannot be seen."""
    try:
        return stat.S_IFMT(files.status(path, follow=follow).st_mode)
    except (OSError, ValueError):
        return 0


def _missing(file: bytes, files: FileView) -> str:
    try:
        files.status(file)
    except FileNotFoundError:
        return _NO_FILE
    except OSError as error:
        return (os.strerror(error.errno or 0)).lower()
    return _NO_FILE
