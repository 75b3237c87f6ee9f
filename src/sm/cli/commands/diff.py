"""Show what an agent changed since it began.

Shows commits, uncommitted changes and new files that git does not ignore: for an agent with a worktree
(sm spawn --worktree) since its branch began, for one with a copy (sm spawn --copy) since the copy was made or last
merged, for other agents since the commit that was checked out when they were created. Agents that share a directory
share its changes too. A new git repository inside the directory is left out until it has a commit. A submodule is
shown by its commit; the command warns if there are changes inside.

On a terminal, the output goes through your pager (GIT_PAGER, PAGER, else less). Each file has its numbers of added and
deleted lines, each line its number before and after the change. Colours show the syntax of common languages, by the
name of the file, and the words that changed within a line. With --no-color or NO_COLOR, and with a pager that colours
by itself, such as delta, the terminal gets the words of git. In each case, characters that a terminal would obey are
shown as code points.

Elsewhere, the output is a patch for git apply. git runs as you, without programs that the repository names, and not at
all where a sandboxed agent could ever write.

The JSON has the base and every changed file with its numbers of added and deleted lines.

\b
Examples:
  sm diff engineer-login
  sm diff engineer-login --stat
  sm diff engineer-login --no-color | git apply
"""

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import print_json
from sm.cli.options import session_argument
from sm.errors import UsageError
from sm.wire import encode

_STAT = re.compile(r"(.* \| +[0-9]+ )(\+*)(-*)")


@click.command(help=__doc__)
@session_argument
@click.option("--stat", is_flag=True, help="Show only the changed files with the number of changed lines.")
@click.option("--name-only", is_flag=True, help="Show only the names of the changed files.")
@click.option("--no-color", is_flag=True, help="Show the difference as git does, without colours.")
@json_option
def command(session: str, stat: bool, name_only: bool, no_color: bool, call: Call) -> int:
    from sm.cli.display.errors import print_warnings
    from sm.cli.session_patch import hidden_changes_warning, work_of

    if stat + name_only + call.as_json > 1:
        raise UsageError("give only one of --stat, --name-only and --json")
    work = work_of(call.client, session, call.seen)
    if (warning := hidden_changes_warning(work.top)) is not None:
        print_warnings([warning])
    if call.as_json:
        shown = {"session_id": work.session["session_id"], "directory": work.top, "branch": work.branch}
        print_json(encode({**shown, "base": work.base, "files": work.files()}))
    elif sys.stdout.isatty():
        _show_on_terminal(work, stat=stat, name_only=name_only, no_color=no_color)
    else:
        return work.show(*(["--stat"] if stat else []), *(["--name-only"] if name_only else []))
    return 0


def _show_on_terminal(work: Any, *, stat: bool, name_only: bool, no_color: bool) -> None:
    from rich.console import Console

    from sm.cli.display.pager import paged, pager_of, shows_colours, width_of_terminal
    from sm.cli.session_patch import difference_lines, files_of

    pager, width = pager_of(os.environ), width_of_terminal()
    console = Console(width=width)  # which reads TERM and NO_COLOR
    colours = None if no_color or console.no_color or not shows_colours(pager) else console.color_system
    with paged(pager, os.environ) as write:
        if colours is not None and not (stat or name_only):
            with files_of(work) as files:
                write(_coloured(files, width, colours))
            return
        options = [f"--stat={width}"] if stat else ["--name-only"] if name_only else []
        with difference_lines(work, *options) as lines:
            write(_plain(lines, is_coloured=stat and colours is not None))


def _coloured(files: Any, width: int, colours: str) -> Iterator[str]:
    """The lines of each file as soon as it is read."""
    from rich.color import ColorSystem

    from sm.cli.display.patch_colours import coloured, theme_of_terminal
    from sm.cli.display.patch_lines import file_lines
    from sm.cli.display.patch_syntax import SyntaxReader

    system = {
        "standard": ColorSystem.STANDARD,
        "256": ColorSystem.EIGHT_BIT,
        "truecolor": ColorSystem.TRUECOLOR,
    }[colours]
    theme, reader = theme_of_terminal(os.environ, system), SyntaxReader()
    for number, (file, sizes) in enumerate(files):
        if number:
            yield ""
        for pieces in file_lines(file, sizes, width, reader):
            yield coloured(pieces, theme, system)


def _plain(lines: Iterator[bytes], *, is_coloured: bool) -> Iterator[str]:
    """The lines of git as they may go to a terminal. `is_coloured`: those of --stat with their colours."""
    from sm.cli.display.patch_lines import plain

    for raw in lines:
        text = plain(raw.removesuffix(b"\n").decode("utf-8", "replace"))
        if is_coloured and (found := _STAT.fullmatch(text)) is not None:
            added, deleted = (
                f"\x1b[{n}m{bar}\x1b[0m" if bar else "" for n, bar in ((32, found[2]), (31, found[3]))
            )
            text = f"{found[1]}{added}{deleted}"
        yield text
