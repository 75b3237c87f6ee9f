"""Runs the user's editor."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from sm.cli.display.errors import print_warnings
from sm.core.lines import line
from sm.errors import ExternalError, UsageError

_EDITORS = ("sensible-editor", "nano", "vi")


def editor_command() -> list[str]:
    """VISUAL, else EDITOR (environ(7)), else an editor that is installed. Raises UsageError and ExternalError."""
    for name in ("VISUAL", "EDITOR"):
        if value := os.environ.get(name, "").strip():
            try:
                return shlex.split(value)
            except ValueError:
                raise UsageError(f"{name} is not a command: {line(value, 200)}") from None
    for name in _EDITORS:
        if shutil.which(name):
            return [name]
    raise ExternalError("no editor is installed", "set EDITOR to your editor")


def is_editor_chosen() -> bool:
    """True if the user has named an editor."""
    return any(os.environ.get(name, "").strip() for name in ("VISUAL", "EDITOR"))


def run_editor(editor: list[str], path: str, unchanged: str) -> None:
    """Let the user edit a file. `unchanged`: the consequence of a failure, in words. Raises ExternalError."""
    shown = line(shlex.join(editor), 200)
    try:
        code = subprocess.run([*editor, path], check=False).returncode
    except OSError as error:
        raise ExternalError(
            f"cannot run {shown}: {(error.strerror or str(error)).lower()}", "set EDITOR"
        ) from None
    if code:
        raise ExternalError(f"the editor {shown} failed with exit code {code}; {unchanged}")


@contextmanager
def edited_text(text: str, name: str, unchanged: str) -> Iterator[str]:
    """Let the user edit a text in a private file of that name, and return the new text.

    If the editor or the body fails, a changed file is kept, and a warning names it. Raises ExternalError, UsageError.
    """
    editor = editor_command()
    directory = tempfile.mkdtemp(prefix="sm-edit-")  # readable for the user alone
    path = f"{directory}/{name}"
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        run_editor(editor, path, unchanged)
        yield _content(path)
    except BaseException:
        if _is_changed(path, text):
            print_warnings([f"your text is in {path}"])
            directory = ""
        raise
    finally:
        if directory:
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
