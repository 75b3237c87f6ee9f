"""Runs agents on this host as the user of the daemon: without isolation, but in a separate environment.

The terminal runs `env -i TERM=... sh state/launch/ID`. That script changes to the working directory, exports the
agent's environment and `exec`s the agent, which becomes the terminal's own process. The script is 0600 and is removed
when the agent runs. Secrets are in the script and never in an argv, because ps shows argvs.
"""

import asyncio
import contextlib
import errno
import logging
import os
import re
import shlex
import subprocess
from collections.abc import Mapping

from sm.core.backoff import Backoff
from sm.core.models import Launch, Process
from sm.errors import AgentStartFailed, ExternalError, ProgramMissing, StorageFull, UsageError
from sm.linux import inotify, processes
from sm.paths import InstancePaths

log = logging.getLogger(__name__)

START_BOUND_S = 10.0
# The first pause between checks. Polling covers cases that inotify misses (network mounts, exhausted limits).
_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.5
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The script's exit code when it cannot enter the working directory. `exec` fails with 126 or 127, and with 2 when the
# shell itself refuses the arguments.
_NO_DIRECTORY = 125
_FAILED = ".failed"
_NEW = ".new"
_ENV = "/usr/bin/env"


def _launch_command(shell: str) -> tuple[str, ...]:
    """The argv that runs a script in `shell` with an environment of only the terminal's TERM.

    `env -S` (GNU, FreeBSD) needs no shell to expand TERM and is 0.5 ms faster. Busybox does not support it.
    """
    probe = (_ENV, f"-S-i TERM=${{TERM}} {_ENV}")
    environment = {"TERM": "a b", "SM_PROBE": "1"}
    answer = subprocess.run(probe, env=environment, capture_output=True, timeout=START_BOUND_S, check=False)
    return (
        (_ENV, f"-S-i TERM=${{TERM}} {shell}")
        if answer.stdout == b"TERM=a b\n"
        else _slow_launch_command(shell)
    )


def _slow_launch_command(shell: str) -> tuple[str, ...]:
    return (shell, "-c", f'exec {_ENV} -i TERM="$TERM" {shell} "$0"')


def _script(launch: Launch, failed: str) -> bytes:
    """The launch script, for dash, bash and busybox sh. Raises UsageError for values that no script can pass on."""
    quote = shlex.quote
    for name in launch.environment:
        if not _NAME.fullmatch(name):
            raise UsageError(f"invalid environment variable name {name!r}", "use letters, digits and _")
    # The trap runs only after a failure: a successful exec leaves no shell.
    report = f'printf "%s\\0" "$$" "$?" "$PATH" {quote(launch.argv[0])} {quote(launch.working_dir)} >{quote(failed)}'
    lines = (
        f"trap {quote(report)} EXIT",
        # tmux silently starts in $HOME when the directory is gone.
        f"cd -- {quote(launch.working_dir)} || exit {_NO_DIRECTORY}",
        "unset OLDPWD SHLVL",
        "set -- " + " ".join(map(quote, launch.argv)),
        # bash skips the trap when exec fails, unless execfail is set.
        "if command -v shopt >/dev/null; then shopt -s execfail; fi",
        *(f"export {name}={quote(value)}" for name, value in launch.environment.items()),
        'exec "$@"',
        "",
    )
    text = "\n".join(lines).encode("utf-8", "surrogateescape")
    if b"\0" in text:
        raise UsageError("a command and its environment must not contain a NUL character")
    return text


class HostSandbox:
    """`Sandbox` on this host, to be made in the event loop that uses it and closed with `close`.

    `grace_s`: the time between SIGTERM and SIGKILL. `shell`: the absolute path of a POSIX shell.
    """

    def __init__(self, paths: InstancePaths, grace_s: float = 5.0, *, shell: str = "/bin/sh") -> None:
        self._paths = paths
        self._grace_s = grace_s
        self._shell = shell
        self._way_in: tuple[str, ...] | None = None
        self._files: inotify.FileWatch | None = None
        self._closed: dict[str, asyncio.Event] = {}

    def _script_of(self, session_id: str) -> str:
        return f"{self._paths.launch}/{session_id}"

    async def prepare(self, session_id: str, launch: Launch, token: str | None = None) -> tuple[str, ...]:
        """Write the script and the files of the prompt, the MCP servers and the token, as far as needed, all 0600.

        The file of the servers stays as long as the session: the agent reads it again to reconnect.

        Raises StorageFull, with nothing half-written, and UsageError for a NUL or an invalid variable name.
        """
        script = self._script_of(session_id)
        contents = {script: _script(launch, script + _FAILED)}
        if launch.prompt_file is not None:
            prompt = launch.prompt_file.encode("utf-8", "surrogateescape")
            contents[self._paths.prompt_file(session_id)] = prompt
        if launch.mcp_config is not None:
            servers = launch.mcp_config.encode("utf-8", "surrogateescape")
            contents[self._paths.mcp_file(session_id)] = servers
        if token is not None:
            contents[self._paths.token_file(session_id)] = token.encode()
        if self._way_in is None:
            self._way_in = await asyncio.to_thread(_launch_command, self._shell)
        try:
            _write_private(self._paths.launch, contents)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise StorageFull(
                f"the disk is full: cannot write the files of session {session_id} to {self._paths.launch}",
                "free disk space, then try again",
            ) from error
        servers_file = self._paths.mcp_file(session_id)
        if launch.mcp_config is None and servers_file not in launch.argv:
            _remove(servers_file)  # from an earlier start
        return (*self._way_in, script)

    async def wait_started(self, session_id: str, pid: int) -> Process | None:
        """As in `Sandbox`. The agent runs once `pid` has left the launch script, at most 10 s after this call.

        /proc decides, so that repeated calls give the same answer. inotify only triggers the next check: the shell
        holds the script open with close-on-exec, so a close means exec.
        """
        script = self._script_of(session_id)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_BOUND_S
        name = os.path.basename(script)
        closed = self._closed.setdefault(name, asyncio.Event())
        self._listen()
        try:
            backoff = Backoff(_PAUSE_S, _LONGEST_PAUSE_S)
            pause_s = backoff.next_s()
            while True:
                closed.clear()
                process = processes.identify(pid)
                if process is None or not _in_launch(pid, script):
                    break
                if loop.time() > deadline:
                    return self._still_in_launch(session_id, process, script)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await closed.wait()
                        continue
                pause_s = backoff.next_s()
        finally:
            self._closed.pop(name, None)
        _remove(script)
        if process is None:
            _raise_if_failed(pid, script + _FAILED)
        return process

    def _still_in_launch(self, session_id: str, process: Process, script: str) -> Process:
        # bash reads a text file without #! in the same process, which then looks like the launch for ever. The launch
        # is over when the process no longer has the script open.
        if processes.has_open(process.pid, script):
            raise AgentStartFailed(
                f"the agent of session {session_id} did not start within {START_BOUND_S:.0f} s",
                f"look at the terminal: sm attach {session_id}; a frequent cause is a slow file system",
            )
        return process

    def _listen(self) -> None:
        try:
            if self._files is None:
                self._files = inotify.FileWatch()
            # Repeated for every start: it takes a microsecond, and the directory may be a new one.
            self._files.add(self._paths.launch, inotify.IN_CLOSE_NOWRITE, self._on_closed)
        except OSError as error:
            log.debug("could not watch the launch directory", extra={"sm_signal": str(error)})

    def _on_closed(self, mask: int, name: str) -> None:
        for script, closed in self._closed.items():
            if script == name or mask & inotify.IN_Q_OVERFLOW:
                closed.set()

    async def end(self, process: Process, *, force: bool) -> None:
        """As in `Sandbox`. Raises ExternalError when a process does not end."""
        left = await processes.end_tree(process, self._grace_s, force=force)
        if left:
            pids = ", ".join(str(stuck.pid) for stuck in left)
            raise ExternalError(
                f"process {pids} did not end: it is stuck in the kernel, or belongs to another user",
                f"ps -o pid,user,stat,args -p {pids.replace(' ', '')}",
            )

    async def forget(self, session_id: str) -> None:
        script = self._script_of(session_id)
        files = (self._paths.prompt_file, self._paths.mcp_file, self._paths.token_file)
        kept = (script, *(file(session_id) for file in files))
        _remove(*kept, *(path + _NEW for path in kept), script + _FAILED)

    def close(self) -> None:
        """Stop watching files. Idempotent; agents keep running."""
        if self._files is not None:
            self._files.close()
            self._files = None


def _write_private(folder: str, contents: Mapping[str, bytes]) -> None:
    """Write 0600 files atomically; on an error remove the files that did not exist before.

    An existing file belongs to a start before a crash, and its agent may be using it. No fsync: after a power loss
    nobody reads the files.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    fresh = [path for path in contents if not os.path.exists(path)]
    try:
        for path, content in contents.items():
            fd = os.open(path + _NEW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(content)
            os.rename(path + _NEW, path)
    except OSError:
        _remove(*fresh, *(path + _NEW for path in contents))
        raise


def _remove(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _in_launch(pid: int, script: str) -> bool:
    """True while a process is not the agent yet: a fork of the terminal server, `env`, or the shell."""
    argv = processes.command_line(pid)
    if not argv or argv[-1] == script:  # no argv: in the middle of an execve
        return True
    # Between the server's fork and its first execve the child still shows the server's own command line.
    return argv == processes.command_line(next(iter(processes.ancestry(pid)[1:2]), 0))


# ------------------------------------------------------------------------------- why an agent could not start

_NOT_ON_PATH = "no such program on the agent's PATH"
_NO_FILE = "no such file"


def _raise_if_failed(pid: int, failed: str) -> None:
    """Raise AgentStartFailed when the script that ran as `pid` reported a failure."""
    try:
        with open(failed, "rb") as file:
            wrote, status, path, program, working_dir = file.read().split(b"\0")[:5]
    except FileNotFoundError:
        return
    if int(wrote) == pid:  # else from an earlier start
        if int(status) == _NO_DIRECTORY:
            raise AgentStartFailed(
                f"cannot enter working directory {_shown(working_dir)}: {_why_not_entered(working_dir)}"
            )
        why, hint = _why_not_run(program, path, working_dir, int(status))
        failure = ProgramMissing if why in (_NOT_ON_PATH, _NO_FILE) else AgentStartFailed
        raise failure(
            f"cannot run {_shown(program)}: {why or f'the start failed with exit code {int(status)}'}", hint
        )


def _shown(path: bytes) -> str:
    text = path.decode("utf-8", "backslashreplace")
    return text if text.isprintable() and text else repr(text)


def _why_not_entered(folder: bytes) -> str:
    try:
        os.stat(folder + b"/.")
    except FileNotFoundError:
        return "no such directory"
    except NotADirectoryError:
        return "not a directory"
    except OSError as error:
        return os.strerror(error.errno or 0)
    return "permission denied"


def _why_not_run(
    program: bytes, path: bytes, working_dir: bytes, status: int
) -> tuple[str | None, str | None]:
    """Explain from the file system why a program could not be executed, as (reason, hint)."""
    if not program:
        return "the program has no name", None
    if b"/" in program:
        candidates = [os.path.join(working_dir, program)]
    else:
        candidates = [os.path.join(working_dir, part, program) for part in path.split(b":")]
    existing = [file for file in candidates if os.path.lexists(file)]
    if not existing:
        if b"/" in program:
            return _missing(candidates[0]), None
        return _NOT_ON_PATH, f"the agent's PATH is {_shown(path)}"
    # The shell runs the first executable file.
    file = next((file for file in existing if os.path.isfile(file) and os.access(file, os.X_OK)), existing[0])
    if os.path.isdir(file):
        return "the path is a directory", None
    if not os.path.exists(file):
        return _missing(file), None
    if not os.access(file, os.X_OK):
        return "permission denied, the file is not executable", f"chmod +x {shlex.quote(_shown(file))}"
    with contextlib.suppress(OSError), open(file, "rb") as content:
        first = content.readline(4096)
        if first.startswith(b"#!") and first[2:].split():
            interpreter = first[2:].split()[0]
            if not os.access(interpreter, os.X_OK):
                return f"its interpreter {_shown(interpreter)} is missing or not executable", None
        elif first.startswith(b"\x7fELF") and status == 127:  # shells exit with 127 for ENOENT
            return "the program is for another system, or its loader is missing", None
    return None, None


def _missing(file: bytes) -> str:
    try:
        os.stat(file)
    except FileNotFoundError:
        return _NO_FILE
    except OSError as error:
        return (os.strerror(error.errno or 0)).lower()
    return _NO_FILE
