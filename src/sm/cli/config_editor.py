"""Edits the configuration file in the user's editor. Only a text without mistakes replaces the file."""

import os
import shutil
import sys
import tempfile
from contextlib import suppress

import click

from sm.cli.display.errors import print_error, print_warnings
from sm.cli.editor import editor_command, run_editor
from sm.errors import ConfigError, ExternalError, IllegalState

_EMPTY = """\
# The configuration of sm. To see every key with its meaning and default: sm config --example
# For example, to start agents without a sandbox when nothing else says so:
#default_trust: direct
"""


def edit(path: str) -> bool:
    """Let the user edit the file, again as long as it has mistakes. Returns False if the file is unchanged.

    Raises ConfigError if the user gives up, and IllegalState if another program changed the file meanwhile; the draft
    is kept then.
    """
    path = os.path.realpath(path)  # the link of a user who keeps such files in one place stays
    editor = editor_command()
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        before = _content(path)
        # In the same directory, because the configuration may name files relative to its own.
        number, draft = tempfile.mkstemp(".yaml", "config-draft-", os.path.dirname(path))
        with open(number, "wb") as file:
            file.write(_EMPTY.encode() if before is None else before)
        if before is not None:
            shutil.copymode(path, draft)
    except OSError as error:
        raise ExternalError(f"cannot write in {os.path.dirname(path)}: {error.strerror}") from None
    kept = False
    try:
        _edit_until_valid(editor, draft, path)
        after = _content(draft)
        if after == before or (before is None and after == _EMPTY.encode()):
            return False
        if _content(path) != before:
            raise IllegalState(
                f"{path} was changed meanwhile; your text is in {draft}", f"diff {path} {draft}"
            )
        os.replace(draft, path)
        return True
    except (ConfigError, IllegalState):
        kept = True
        raise
    finally:
        if not kept:
            with suppress(FileNotFoundError):
                os.unlink(draft)


def _edit_until_valid(editor: list[str], draft: str, path: str) -> None:
    from sm.config import load

    while True:
        run_editor(editor, draft, "the configuration is unchanged")
        try:
            print_warnings(text.replace(draft, path) for text in load(draft).warnings)
            return
        except ConfigError as error:
            mistakes = error.message.replace(draft, path)
        message = f"{mistakes}\nthe configuration is unchanged; your text is in {draft}"
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise ConfigError(message, f"correct it, then: mv {draft} {path}")
        print_error(ConfigError(mistakes))
        click.echo("Edit again? [Y/n] ", nl=False, err=True)
        if sys.stdin.readline().strip().lower() not in ("", "y", "yes"):
            raise ConfigError(message, f"correct it, then: mv {draft} {path}")


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
