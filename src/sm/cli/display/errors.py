"""Prints the error of a command on stderr and chooses its exit code."""

import itertools
import os
import re
import shlex
import sys
from collections.abc import Iterable

import click

from sm.errors import (
    AnswersQuestion,
    DirectoryNotTrusted,
    ExternalError,
    InternalError,
    NotPermitted,
    RateLimited,
    SmError,
    StorageFull,
    UsageError,
)
from sm.paths import instance_paths
from sm.wire import encode

_EXTRA = re.compile(r"unexpected extra argument \((.*)\)")
_WITH_ARGUMENT = {"sm ls": "sm status", "sm prune": "sm prune --older-than"}
"""For commands without arguments: the command that takes the argument that users give them."""


class Failures:
    """Counts the errors of a command that continues after an error. The first error sets the exit code."""

    def __init__(self) -> None:
        self.code = 0

    def add(self, error: SmError, *, is_shown: bool = True) -> None:
        code = print_error(error) if is_shown else error.exit_code
        self.code = self.code or code


def print_error(error: BaseException) -> int:
    """Print an error on stderr, as JSON when --json was given, and return its exit code."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case BrokenPipeError():
            return 0  # the reader of stdout, such as `head`, has read enough
        case SmError():
            shown = error
        case click.ClickException():
            shown = _usage_error(error)
        case OSError(errno=28):
            shown = StorageFull("the disk is full")
        case OSError():
            shown = ExternalError(f"{error.filename or 'the system'}: {error.strerror or error}")
        case ModuleNotFoundError(name=str(name)) if name.startswith("sm."):
            # The copy of the client in a container has only the parts that the commands of agents need.
            shown = NotPermitted("this command does not run in a sandbox", "run it on the host")
        case _:
            shown = _internal_error(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
    elif sys.stderr is not None:
        options = itertools.takewhile(lambda word: word != "--", sys.argv)
        sys.stderr.write(_format(shown, as_json="--json" in options))
    return shown.exit_code


def _format(error: SmError, *, as_json: bool) -> str:
    """Format an error as text, or as the JSON error of docs/protocol.md. The result ends with a newline.

    An error may quote an agent, so the text has no control characters. Line breaks stay.
    """
    if as_json:
        body: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint}
        if isinstance(error, RateLimited):
            body["retry_after_s"] = error.retry_after_s
        if isinstance(error, DirectoryNotTrusted):
            body["directory"] = error.directory
        if isinstance(error, AnswersQuestion):
            body["request_id"] = error.request_id
        return encode({"error": body}) + "\n"
    from sm.core.text import escape_marks, folded

    lines = [escape_marks(folded(line, 4000)) for line in error.message.splitlines() or ["failed"]]
    text = f"sm: {lines[0]}\n" + "".join(f"    {line}\n" for line in lines[1:])
    return text + (f"hint: {folded(error.hint, 4000)}\n" if error.hint else "")


def print_warnings(warnings: Iterable[object]) -> None:
    """Print the sentences for people among `warnings`. A session has objects there, which `sm status` shows."""
    from sm.core.text import folded

    for warning in warnings:
        if isinstance(warning, str):
            click.echo(f"warning: {folded(warning, 4000)}", err=True)


def _usage_error(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help" if context is not None else None
    message = error.format_message()
    extra = _EXTRA.search(message)
    if context is not None and extra is not None and context.command_path in _WITH_ARGUMENT:
        hint = f"{_WITH_ARGUMENT[context.command_path]} {shlex.quote(extra[1])}"
    if isinstance(error, click.MissingParameter):
        message = " ".join(message.split())  # click lists the choices on lines of their own
    return UsageError(message[:1].lower() + message[1:].rstrip("."), hint)


def _internal_error(error: BaseException) -> InternalError:
    """Write the traceback to a new file in the log directory, or to stderr when that fails."""
    import traceback

    bug_id = os.urandom(4).hex()
    report = "".join(traceback.format_exception(error))
    path = f"{instance_paths(os.environ).log}/bug-{bug_id}.txt"
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(report)
    except OSError:
        sys.stderr.write(report)
        path = "the lines above"
    name = type(error).__name__
    return InternalError(f"internal error {bug_id} ({name})", f"report the error with {path}")
