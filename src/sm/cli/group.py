"""Defines the click group `sm`, which imports a command only when it is called."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from sm import __version__
from sm.cli import COMMANDS
from sm.errors import PlatformUnsupported

COMPLETE = "_SM_COMPLETE"


class LazyGroup(click.Group):
    """A group of the commands in `COMMANDS`, which are modules of `sm.cli.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for _, name, _ in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if all(name != cmd_name for _, name, _ in COMMANDS):
            return None
        command = import_module(f"sm.cli.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and all(name != args[0] for _, name, _ in COMMANDS):
            raise click.UsageError(f"there is no command {args[0]!r}{nearest(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in dict.fromkeys(section for section, _, _ in COMMANDS):
            with formatter.section(section):
                formatter.write_dl([(name, line) for group, name, line in COMMANDS if group == section])


def nearest(name: str) -> str:
    """The end of an error message: suggests commands with a similar name, or is empty."""
    from difflib import get_close_matches

    matches = get_close_matches(name, [known for _, known, _ in COMMANDS])
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


@click.command(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="sm", message="%(prog)s %(version)s")
def sm() -> None:
    """Start coding agents, each in a terminal of its own, and see what they do.

    \b
    Example:
      sm spawn Engineer "Implement the login endpoint" --name login
      sm children
    """


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Errors are for `display.errors.print_error`."""
    if sys.platform != "linux":
        raise PlatformUnsupported(f"sm runs on Linux, WSL2 included, and not on {sys.platform}")
    if COMPLETE in os.environ:
        return _complete()
    arguments = list(arguments) or ["--help"]
    if arguments[0] == "help":
        arguments = [*arguments[1:2], "--help"]
    if sys.stdout is not None and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # TextIO in typeshed, a TextIOWrapper here
    with sm.make_context("sm", arguments) as context:
        code = sm.invoke(context)
    return code if isinstance(code, int) else 0


def _complete() -> int:
    """Answer the shell's completion script, which runs at every press of Tab."""
    from click.shell_completion import shell_complete

    try:
        return shell_complete(sm, {}, "sm", COMPLETE, os.environ[COMPLETE])
    except Exception:  # noqa: BLE001  a traceback would appear in the user's command line
        return 1
