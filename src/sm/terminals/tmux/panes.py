"""Parses tmux's lists of panes, and quotes names and paths for its formats. Pure."""

import re
from collections.abc import Sequence

from sm.core.dataclass import dataclass
from sm.core.models import Exit
from sm.errors import TerminalError, TerminalUnreachable
from sm.terminals.base import Pane
from sm.terminals.tmux.control import Command, unless

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_COMPARED = re.compile(r"[A-Za-z0-9_.-]+")
"""Names that have no meaning in tmux's formats."""
_FORMAT_SIGN = re.compile(r"(#+)(\[?)")
FOREIGN = "foreign"
OWN = "own"
"""Values of `@sm_adopted`: the pane's first process is another program (FOREIGN), or the agent (OWN)."""
# tmux writes this note below the output of a dead pane, to explain to a person why nothing happens
# (remain-on-exit-format; tmux 3.2 uses its own text). It is not output of the agent.
DEAD_NOTE = "[sm] the agent has ended"
DEAD_NOTE_3_2 = "Pane is dead ("
GONE = "gone"
"""The output of `unless_gone` when the command did not run."""
# `x` keeps a field from being empty. The session's name comes last: it may hold spaces.
# A program chooses its own name: a space or a line end in it would make the list unreadable.
_COMMAND = f"#{{?#{{==:#{{@sm_adopted}},{FOREIGN}}},#{{s/[^A-Za-z0-9_.-]/_/:pane_current_command}},}}"
ROW = (
    "#{pid} #{pane_id} #{pane_pid} #{pane_tty} x#{pane_dead} x#{pane_dead_status} x#{pane_dead_signal}"
    " #{window_activity} x#{@sm_adopted} x#{pane_dead_time} #{window_active_clients} x#{@sm_agent_pid}"
    f" x{_COMMAND} #{{session_name}}"
)


def keep_on_exit(pane_id: str) -> tuple[Command, ...]:
    """The commands that keep a pane when its process ends, with its output and exit status, and without its input.

    tmux 3.3a crashes when a person pastes (`prefix ]`) into a pane whose process has ended, but not if the input of the
    pane is off. tmux runs the hook before any command of a client.
    """
    to = ("-p", "-t", pane_id)
    return (
        ("set-option", *to, "remain-on-exit", "on"),
        ("set-option", "-q", *to, "remain-on-exit-format", DEAD_NOTE),
        ("set-hook", *to, "pane-died", "select-pane -d"),
    )


def input_off(pane_id: str) -> Command:
    return ("select-pane", "-d", "-t", pane_id)


def dead_with_input(instance: str) -> Command:
    """The command that lists the kept panes whose input is still on: an older version of sm left them."""
    kept = f"#{{&&:#{{m:{instance} *,#{{@sm_agent}}}},#{{!=:#{{@sm_adopted}},{FOREIGN}}}}}"
    where = f"#{{&&:#{{&&:#{{pane_dead}},#{{!=:#{{pane_input_off}},1}}}},{kept}}}"
    return ("list-panes", "-a", "-f", where, "-F", "#{pane_id}")


@dataclass(frozen=True, slots=True)
class Row:
    """A pane that carries `@sm_agent`, and the current name of its tmux session."""

    pane: Pane
    session_name: str
    adopted: bool
    """The tmux session was not made by sm."""


def word(text: str) -> str:
    """Check `text` for use in formats and names, in which tmux would replace `:` and `.` by `_`."""
    if not _NAME.fullmatch(text):
        raise TerminalError(f"invalid terminal name {text!r}: use letters, digits, _ and -")
    return text


def tag(instance: str, session_id: str, name: str) -> str:
    """The value of `@sm_agent` and `@sm_terminal`."""
    return f"{instance} {word(session_id)} {word(name)}"


def literal(path: str) -> str:
    """Escape `path` where tmux expands formats such as `#(command)`: `##` stands for `#`.

    `#` signs directly before `[` stay unchanged, whatever their number (tmux(1), STYLES).
    """
    return _FORMAT_SIGN.sub(lambda match: match[0] if match[2] else 2 * match[0], path)


def window_name(title: str) -> str:
    """`title` without `#`: tmux expands formats in the name of a new window, its status bar styles in every name."""
    return title.replace("#", "_")


def panes(where: str) -> Command:
    """The command that lists the agents' panes that match the filter `where`; `rows` parses its output."""
    return ("list-panes", "-a", "-f", where, "-F", f"#{{@sm_agent}} {ROW}")


def pane(pane_id: str) -> Command:
    """The command that prints one pane; `row_of` parses its output."""
    return ("display-message", "-p", "-t", pane_id, f"#{{@sm_agent}} {ROW}")


def unless_gone(pane: Pane, *commands: Command) -> Command:
    """`commands` on a condition: the pane still runs the process that was found in it. Otherwise prints GONE.

    `paste-buffer` into a pane whose process has ended crashes tmux 3.3a, with all agents. The process may end between
    two command lines, so the check is part of the line. When the agent in a `foreign` pane ends, the shell of a person
    gets the terminal, and would run what is typed: the program that has the terminal must be the same, too.
    """
    gone = f"#{{||:#{{pane_dead}},#{{!=:#{{pane_pid}},{pane.pid}}}}}"
    if pane.foreign and _COMPARED.fullmatch(pane.command):
        gone = f"#{{||:{gone},#{{!=:{_COMMAND},{pane.command}}}}}"
    return unless(gone, pane.pane_id, commands, ("display-message", "-p", GONE))


def row_of(line: str, tag: str) -> Row | None:
    """The pane, if it carries this tag. For a missing pane tmux prints empty fields, or those of another one."""
    return rows([line])[0] if line.startswith(f"{tag} ") else None


def rows(lines: Sequence[str]) -> list[Row]:
    try:
        return [row(line) for line in lines]
    except ValueError:
        raise TerminalUnreachable("tmux printed an unreadable list of panes") from None


def row(line: str) -> Row:
    """One line of `TAG ROW`. Raises ValueError."""
    fields = line.split(" ", 16)
    _, session_id, name, server, pane_id, pid, tty, dead, status, killer, activity = fields[:11]
    adopted, died, viewers, agent_pid, command, session_name = fields[11:]
    ended = Exit(_number(status), _number(killer)) if dead == "x1" else None
    pane = Pane(
        session_id=session_id,
        name=name,
        pane_id=pane_id,
        pid=int(pid),
        tty=tty,
        dead=ended is not None,
        exit=ended,
        activity_s=int(activity),
        foreign=adopted == f"x{FOREIGN}",
        server_pid=int(server),
        dead_since_s=_number(died) if ended is not None else None,
        viewed=viewers != "0",
        agent_pid=_number(agent_pid),
        command=command[1:],
    )
    return Row(pane, session_name, adopted != "x")


def _number(field: str) -> int | None:
    return int(field[1:]) if len(field) > 1 else None


def without_blanks(lines: Sequence[str]) -> list[str]:
    """Strip blanks at the end of each line, and blank lines at the end."""
    kept = [line.rstrip() for line in lines]
    while kept and not kept[-1]:
        kept.pop()
    return kept
