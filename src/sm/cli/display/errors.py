"""Prints the error of a command on stderr and chooses its exit code."""

import itertools
import os
import sys
from collections.abc import Iterable

import click

from sm.errors import ExternalError, InternalError, RateLimited, SmError, StorageFull, UsageError
from sm.paths import places
from sm.wire import encode


class Failures:
    """The errors of a command that goes on after each of them: the first one gives its exit code."""

    def __init__(self) -> None:
        self.code = 0

    def add(self, error: SmError, *, is_shown: bool = True) -> None:
        code = print_error(error) if is_shown else error.exit_code
        self.code = self.code or code


def print_error(error: BaseException) -> int:
    """Print what went wrong on stderr, as JSON after --json, and return the exit code."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case BrokenPipeError():
            return 0  # whoever read us has what it wanted
        case SmError():
            said = error
        case click.ClickException():
            said = _usage(error)
        case OSError(errno=28):
            said = StorageFull("the disk is full")
        case OSError():
            said = ExternalError(f"{error.filename or 'the system'}: {error.strerror or error}")
        case _:
            said = _bug(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return said.exit_code
    if sys.stderr is not None:
        options = itertools.takewhile(lambda word: word != "--", sys.argv)
        sys.stderr.write(_text(said, as_json="--json" in options))
    return said.exit_code


def _text(error: SmError, *, as_json: bool) -> str:
    """What stderr shows of an error: for people, or the object of design section 13. Ends with a newline.

    An error may quote an agent, so nothing in it can drive the terminal; its own lines stay lines.
    """
    if as_json:
        body: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint}
        if isinstance(error, RateLimited):
            body["retry_after_s"] = error.retry_after_s
        return encode({"error": body}) + "\n"
    from sm.core.text import folded, marked

    lines = [marked(folded(line, 4000)) for line in error.message.splitlines() or ["failed"]]
    text = f"sm: {lines[0]}\n" + "".join(f"    {line}\n" for line in lines[1:])
    return text + (f"hint: {folded(error.hint, 4000)}\n" if error.hint else "")


def print_warnings(warnings: Iterable[str]) -> None:
    from sm.core.text import folded

    for warning in warnings:
        click.echo(f"warning: {folded(warning, 4000)}", err=True)


def _usage(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help" if context is not None else None
    message = error.format_message()
    return UsageError(message[:1].lower() + message[1:].rstrip("."), hint)


def _bug(error: BaseException) -> InternalError:
    """Keep the traceback in a file of its own, named by an id; print it when even that is not possible."""
    import traceback

    identity = os.urandom(4).hex()
    story = "".join(traceback.format_exception(error))
    path = f"{places(os.environ).log}/bug-{identity}.txt"
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(story)
    except OSError:
        sys.stderr.write(story)
        path = "the lines above"
    name = type(error).__name__
    return InternalError(f"a defect of sm itself ({name}), bug {identity}", f"please report it with {path}")
