"""Runs the real Claude Code as a later release would be: the program of a rehearsal.

Between the terminal and claude is a pseudo-terminal whose output is rewritten. A filter of ours runs each hook, and
claude writes its state and its transcripts into a directory of its own, from which they are copied with changes. The
process that sm has started becomes claude itself, so its pid, its state file and its children are as ever.
"""

import codecs
import fcntl
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.rehearsal.changes import CHANGES, Change
from tests.rehearsal.rewriting import complete_part, rewrite_screen

_ROOT = Path(__file__).parents[2]
_FRAME_S = 0.004
"""claude writes a picture at once; a pause of this length ends it."""
_MIRROR_S = 0.02
_OWN = "-of-claude"
"""Suffix of the directory in which claude keeps its files."""
_HOME = "CLAUDE_CONFIG_DIR"
_ENTRY = "import sys; sys.path.insert(0, {root!r}); from tests.rehearsal.wrapper import {name}; {name}()"


def script(change: str, program: str) -> str:
    """Return the text of the program that plays this change of a real one."""
    words = [sys.executable, "-c", _ENTRY.format(root=str(_ROOT), name="run"), change, program]
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'


# --------------------------------------------------------------------------------------------------- the program


def run() -> None:
    """Become claude on a terminal of its own."""
    change, program, arguments = CHANGES[sys.argv[1]], sys.argv[2], sys.argv[3:]
    if arguments[:1] in (["--help"], ["--version"]):
        shown = subprocess.run([program, *arguments], capture_output=True, text=True, check=False).stdout
        sys.stdout.write(change.help(shown) if arguments == ["--help"] else shown)
        return
    _refuse(change, arguments)
    environment = change.environment(dict(os.environ))
    given = environment.get(_HOME, f"{environment.get('HOME', '')}/.claude")
    own = f"{given}{_OWN}" if change.rewrites_files else given
    if own != given:
        _prepare(given, own)
        environment[_HOME] = own
    arguments = _with_filters(change, arguments, given, own)
    _move_to_own_terminal(change, given, own)
    os.execve(program, [program, *arguments], environment)


def _refuse(change: Change, arguments: Sequence[str]) -> None:
    """End as claude does at an option or a mode that the release does not know."""
    for number, word in enumerate(arguments):
        if word.partition("=")[0] in change.unknown_options:
            sys.exit(f"error: unknown option '{word}'")
        if word in change.unknown_modes and arguments[number - 1] == "--permission-mode":
            sys.exit(
                f"error: option '--permission-mode <mode>' argument '{word}' is invalid. Allowed choices are plan."
            )


def _with_filters(change: Change, arguments: Sequence[str], given: str, own: str) -> list[str]:
    """Return the arguments with a filter in front of each hook."""
    changed = change.arguments(list(arguments))
    at = changed.index("--settings") + 1 if "--settings" in changed else 0
    if not at:
        return changed
    settings = json.loads(changed[at])
    filters = [
        sys.executable,
        "-S",
        "-c",
        _ENTRY.format(root=str(_ROOT), name="filter_hook"),
        change.name,
        given,
        own,
    ]
    for groups in settings.get("hooks", {}).values() if change.rewrites_hooks else ():
        for hook in (hook for group in groups for hook in group["hooks"]):
            hook["command"] = shlex.join([*filters, hook["command"]])
    changed[at] = json.dumps(change.settings(settings))
    return changed


def _prepare(given: str, own: str) -> None:
    """Make claude's own directory from the files that its user has."""
    with open(f"{given}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(own):
            os.mkdir(own)
            for name in (".claude.json", "settings.json"):
                with suppress(FileNotFoundError):
                    shutil.copy(f"{given}/{name}", own)


def _move_to_own_terminal(change: Change, given: str, own: str) -> None:
    """Give this process a new terminal, and leave the old one to a relay."""
    master, slave = os.openpty()
    outer = os.dup(0)
    termios.tcsetwinsize(slave, termios.tcgetwinsize(outer))
    termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(outer))
    tty.setraw(outer)
    process, ready = os.getpid(), os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.close(slave)
        os.write(ready[1], b".")
        for standard in range(3):
            os.dup2(outer, standard)
        os._exit(_relay(change, outer, master, process, given, own))
    os.read(ready[0], 1)
    for descriptor in (master, *ready):
        os.close(descriptor)
    if os.getsid(0) == process:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        fcntl.ioctl(outer, termios.TIOCNOTTY)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    else:
        os.setsid()
    os.close(outer)
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for standard in range(3):
        os.dup2(slave, standard)
    os.close(slave)


# ----------------------------------------------------------------------------------------------------- the relay


def _relay(change: Change, outer: int, master: int, process: int, given: str, own: str) -> int:
    """Pass on input and rewritten output until claude has ended or its terminal is closed."""
    decoder, pending = codecs.getincrementaldecoder("utf-8")("replace"), ""
    mirror = Mirror(change, Path(given), Path(own), process) if own != given else None
    running = os.pidfd_open(process)
    size = termios.tcgetwinsize(outer)
    ended = False
    with suppress(OSError):
        while not ended:
            readable, _, _ = select.select([outer, master], [], [], _MIRROR_S)
            if outer in readable:
                typed = os.read(outer, 65536)
                if not typed:
                    break
                _write(master, typed)
            if master in readable:
                drawn = b""
                while select.select([master], [], [], _FRAME_S)[0]:
                    try:
                        drawn += os.read(master, 65536)
                    except OSError:  # claude has ended
                        ended = True
                        break
                text, pending = complete_part(pending + decoder.decode(drawn))
                _write(outer, rewrite_screen(text, change.screen, change.title).encode())
            if (now := termios.tcgetwinsize(outer)) != size:
                size = now
                termios.tcsetwinsize(master, size)
            if mirror is not None:
                mirror.copy()
    os.close(master)
    if mirror is not None:
        while not select.select([running], [], [], _MIRROR_S)[0]:
            mirror.copy()
        mirror.copy()
        mirror.end()
    return 0


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


class Mirror:
    """Copies claude's state file, and all transcripts, with changes. One relay at a time copies transcripts."""

    def __init__(self, change: Change, given: Path, own: Path, process: int) -> None:
        self._change, self._given, self._own = change, given, own
        self._state = f"sessions/{process}.json"
        self._published = b""
        self._copied: dict[Path, int] = {}
        self._lock = open(own / "mirror.lock", "a")  # noqa: SIM115 - held until this process ends
        self._has_lock = False

    def copy(self) -> None:
        """Copy what is new."""
        self._copy_state()
        if not self._has_lock:
            with suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._has_lock = True
        if self._has_lock:
            for path in self._own.glob("projects/**/*"):
                if path.is_file():
                    self._copy_lines(path)

    def end(self) -> None:
        """Remove the copy of a state file that claude has removed, and let another relay copy the transcripts."""
        self._lock.close()
        if not (self._own / self._state).exists():
            (self._given / self._state).unlink(missing_ok=True)

    def _copy_state(self) -> None:
        try:
            content = (self._own / self._state).read_bytes()
            value = json.loads(content)
        except (OSError, ValueError):
            return
        if content != self._published:
            target = self._given / self._state
            target.parent.mkdir(exist_ok=True)
            part = target.with_suffix(".part")
            part.write_text(json.dumps(self._change.state(value)))
            part.replace(target)
            self._published = content

    def _copy_lines(self, source: Path) -> None:
        target = self._given / source.relative_to(self._own)
        if source.suffix != ".jsonl":
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
            return
        offset = self._copied.get(source)
        if offset is None:
            offset = self._offset(source, target)
        with open(source, "rb") as file:
            file.seek(offset)
            lines = file.read().rpartition(b"\n")[0]
        if lines:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "ab") as file:
                file.write(b"".join(map(self._line, lines.split(b"\n"))))
            offset += len(lines) + 1
        self._copied[source] = offset

    def _offset(self, source: Path, target: Path) -> int:
        """Return how far another relay has copied a transcript."""
        left = target.stat().st_size if target.exists() else 0
        offset = 0
        for line in source.read_bytes().splitlines(keepends=True):
            if left <= 0:
                break
            left -= len(self._line(line.rstrip(b"\n")))
            offset += len(line)
        return offset

    def _line(self, line: bytes) -> bytes:
        try:
            values: Sequence[Any] = self._change.lines(json.loads(line))
        except ValueError:
            return line + b"\n"
        return b"".join(json.dumps(value).encode() + b"\n" for value in values)


# ------------------------------------------------------------------------------------------------------- the hooks


def filter_hook() -> None:
    """Run a hook with the changed payload, and pass on its output unless the change ignores it."""
    name, given, own, command = sys.argv[1:]
    change = CHANGES[name]
    payload = json.loads(sys.stdin.read().replace(own, given) if own != given else sys.stdin.read())
    ended = subprocess.run(
        ["sh", "-c", command],
        input=json.dumps(change.hook(payload)).encode(),
        stdout=subprocess.DEVNULL if change.ignores_answers else None,
        env={**os.environ, _HOME: given},
        check=False,
    )
    sys.exit(ended.returncode)
