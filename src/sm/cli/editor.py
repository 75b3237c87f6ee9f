"""Runs the user's editor."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sm.cli.display.errors import print_warnings
from sm.core.lines import line
from sm.errors import ExternalError, UsageError

_EDITORS = ("sensible-editor", "nano", "vi")
_WAIT = ("--wait", "w")
_RETURNING = {
    **dict.fromkeys(
        ("atom", "code", "code-insiders", "code-oss", "codium", "cursor", "mate", "subl", "windsurf", "zed"),
        _WAIT,
    ),
    **dict.fromkeys(("gvim", "mvim"), ("--nofork", "f")),
}
"""Editors that return before their user is done, with the option that lets them wait, and its letter."""


def editor_command() -> list[str]:
    """VISUAL, else EDITOR (environ(7)), else an editor that is installed. Raises UsageError and ExternalError."""
    for name in ("VISUAL", "EDITOR"):
        if value := os.environ.get(name, "").strip():
            try:
                command = shlex.split(value)
            except ValueError:
                raise UsageError(f"{name} is not a command: {line(value, 200)}") from None
            _check_waits(name, command)
            return command
    for name in _EDITORS:
        if shutil.which(name):
            return [name]
    raise ExternalError("no editor is installed", "set EDITOR to your editor")


def _check_waits(variable: str, command: list[str]) -> None:
    """Refuse an editor that would return at once, so that its file would be deleted before the user has saved it."""
    program = os.path.basename(command[0]) if command else ""
    if program not in _RETURNING:
        return
    option, letter = _RETURNING[program]
    if not any(word == option or (word[:1] == "-" != word[1:2] and letter in word) for word in command[1:]):
        raise UsageError(
            f"{variable} is {line(shlex.join(command), 200)}, which returns before you have edited the file",
            f"export {variable}={shlex.quote(shlex.join([*command, option]))}",
        )


def is_editor_chosen() -> bool:
    """True if the user has named an editor."""
    return any(os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))


def run_editor(editor: list[str], path: str, unchanged: str) -> None:
    """Let the user edit a file. `unchanged`: the consequence of a failure, in words.

    Ctrl-C is for the editor alone. Raises ExternalError, and KeyboardInterrupt if it has ended the editor.
    """
    shown = line(shlex.join(editor), 200)
    try:
        with _keys_of_editor():
            code = subprocess.run([*editor, path], check=False).returncode
    except OSError as error:
        raise ExternalError(
            f"cannot run {shown}: {(error.strerror or str(error)).lower()}", "set EDITOR"
        ) from None
    if code == -signal.SIGINT:
        raise KeyboardInterrupt
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise ExternalError(f"the editor {shown} failed with {how}; {unchanged}")


@contextmanager
def _keys_of_editor() -> Iterator[None]:
    """Survive Ctrl-C and Ctrl-\\ as git does: the terminal sends them to every process, and vim uses Ctrl-C itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                # A function: the program gets the default back, where it would inherit that a signal is ignored.
                signal.signal(number, lambda *_: None)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def edited_text(text: str, name: str, unchanged: str) -> Iterator[str]:
    """Let the user edit a text in a private file of that name, and return the new text.

    The file is kept, and a warning names it, if the body fails, if the editor fails after a change, and if the editor
    has left a swap file. Raises ExternalError, UsageError.
    """
    editor = editor_command()
    directory = tempfile.mkdtemp(prefix="sm-edit-")  # readable for the user alone
    path = f"{directory}/{name}"
    is_kept = False
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        try:
            run_editor(editor, path, unchanged)
            edited = _content(path)
        except BaseException:
            is_kept = _is_changed(path, text)
            raise
        try:
            yield edited
        except BaseException:
            is_kept = True
            raise
    finally:
        if is_kept:
            print_warnings([f"your text is in {path}"])
        elif left := _recovery_files(directory):
            print_warnings([f"the editor has left a file to recover your text from: {directory}/{left[0]}"])
        else:
            shutil.rmtree(directory, ignore_errors=True)


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            return file.read()
    except OSError as error:
        raise ExternalError(f"cannot read {path}: {error.strerror}") from None


def _is_changed(path: str, text: str) -> bool:
    try:
        return _content(path) != text
    except ExternalError:
        return False


def _recovery_files(directory: str) -> list[str]:
    """Swap and lock files of an editor that was killed or still runs. Backups, such as `REVIEW.md~`, are none."""
    try:
        return [name for name in os.listdir(directory) if name.startswith((".", "#"))]
    except OSError:
        return []
