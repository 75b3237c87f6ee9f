"""Lists the commands, and defines the click group `sm`, which imports a command only when it is called."""

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from sm import __version__
from sm.errors import PlatformUnsupported

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

AGENTS = "Manage agents"
STATE = "See what agents do"
MESSAGES = "Talk to agents"
REPORTS = "Report from inside an agent"
SETUP = "Setup and administration"

COMMANDS = (
    (AGENTS, "spawn", "Start an agent in its own terminal."),
    (AGENTS, "attach", "Attach to an agent's terminal."),
    (AGENTS, "interrupt", "Interrupt agents (Escape). They stay alive."),
    (AGENTS, "kill", "End agents and every process they started."),
    (AGENTS, "restore", "Restart ended sessions and resume their conversations."),
    (AGENTS, "fork", "Start an agent from a copy of another agent's conversation."),
    (AGENTS, "adopt", "Manage an agent you started yourself in a tmux pane."),
    (AGENTS, "reparent", "Move a session under another parent."),
    (AGENTS, "rename", "Give a session another name."),
    (AGENTS, "diff", "Show what an agent changed since it began."),
    (AGENTS, "review", "Comment on what an agent changed, in your editor."),
    (AGENTS, "merge", "Merge the branch of an agent's worktree into your branch."),
    (AGENTS, "pr", "Open a pull request for the branch of an agent's worktree."),
    (AGENTS, "worktree", "Manage the git worktrees of agents."),
    (AGENTS, "archive", "Hide ended sessions from lists."),
    (AGENTS, "unarchive", "Show archived sessions in lists again."),
    (AGENTS, "export", "Write the archive of an ended session to a file."),
    (AGENTS, "rm", "Delete ended sessions and their files."),
    (AGENTS, "prune", "Delete all ended sessions, or those of a certain age."),
    (AGENTS, "agents", "List the agent types that you can spawn."),
    (AGENTS, "accounts", "List the accounts of your agents, and why they are parked."),
    (AGENTS, "budget", "Show or change the budget of a session and those below it."),
    (AGENTS, "pause", "Pause agents: no new turn, and messages wait."),
    (AGENTS, "resume", "End the pause of agents, or an account's limit."),
    (AGENTS, "workspace", "Manage workspaces: teams of agents with a directory."),
    (STATE, "ls", "List agents: first those that need you."),
    (STATE, "seen", "Mark ended sessions as seen."),
    (STATE, "top", "Watch and direct agents in a full-screen view."),
    (STATE, "web", "Watch and direct agents in a browser, also on a phone."),
    (STATE, "all", "List all sessions as a tree."),
    (STATE, "children", "List the children of a session."),
    (STATE, "who", "List the other children of my parent."),
    (STATE, "others", "List the other sessions of my workspace."),
    (STATE, "me", "Show the session that runs this command."),
    (STATE, "status", "Show the state of the system, or of one session."),
    (STATE, "digest", "Show what happened while you were away."),
    (STATE, "progress", "Show a session's progress: tokens, cost, tools, activity."),
    (STATE, "usage", "Show tokens, cost and time of groups of sessions."),
    (STATE, "tail", "Show an agent's last actions, or follow new ones."),
    (STATE, "output", "Show the last lines of an agent's terminal."),
    (STATE, "events", "Show events, or follow new ones."),
    (STATE, "search", "Search prompts, messages, answers and output of agents."),
    (STATE, "checkpoints", "List the milestones that a session reported."),
    (STATE, "what", "Summarize a session in a few sentences."),
    (STATE, "why", "Explain a session's status, or who answered a request."),
    (STATE, "wait", "Wait until sessions complete or reach a status."),
    (MESSAGES, "send", "Send a message to agents."),
    (MESSAGES, "broadcast", "Send a message to all your agents."),
    (MESSAGES, "inbox", "Show the messages in your inbox."),
    (MESSAGES, "log", "Show sent messages and whether they arrived."),
    (MESSAGES, "requests", "List open requests, or show one in full."),
    (MESSAGES, "approve", "Approve a permission, plan, completion or more budget."),
    (MESSAGES, "deny", "Deny a permission, plan, question, completion or budget."),
    (MESSAGES, "reject", "Deny a request; the same as sm deny."),
    (MESSAGES, "answer", "Answer an agent's question."),
    (REPORTS, "checkpoint", "Report a milestone."),
    (REPORTS, "note", "Set a one-line note about the current work."),
    (REPORTS, "ask", "Ask the parent or the operator a question."),
    (REPORTS, "complete", "Report that the work is done, or why it failed."),
    (SETUP, "demo", "Run a demo: a small team of agents at work."),
    (SETUP, "doctor", "Check this machine for what sm needs."),
    (SETUP, "check", "Check that sm and an agent CLI still understand each other."),
    (SETUP, "provider", "Show the agent CLIs, and choose their versions."),
    (SETUP, "config", "Show, check or edit the configuration."),
    (SETUP, "sandbox", "Manage the containers of sandboxed agents, and their image."),
    (SETUP, "mcp", "Serve the tools of sm to an MCP client on stdin and stdout."),
    (SETUP, "telegram", "Show or test the bot of Telegram."),
    (SETUP, "pair", "Pair users of Telegram with this instance, or revoke them."),
    (SETUP, "trust", "Mark a directory as trusted for claude."),
    (SETUP, "daemon", "Start, stop and inspect the daemon."),
    (SETUP, "service", "Run the daemon as a systemd user service."),
    (SETUP, "uninstall", "Remove the daemon, the service and the state of sm."),
    (SETUP, "completion", "Print a shell completion script."),
    (SETUP, "version", "Show the version."),
    (SETUP, "help", "Show help for a command, or list all commands."),
)
"""(section, name, first line of help) in the order of `sm help --all`, which therefore imports no command."""

COMMON = frozenset(
    {
        *("spawn", "attach", "kill", "restore", "ls", "top", "status", "tail", "wait"),
        *("send", "requests", "approve", "deny", "answer", "demo", "doctor"),
    }
)
"""The commands that `sm --help` shows."""

INTERNAL = frozenset({"hook"})
"""Commands that only programs call. Help and completion omit them."""

COMPLETE = "_SM_COMPLETE"
COMMAND_HELP = 'Run "sm COMMAND --help" for help on a command.'
ALIASES = {
    "ps": "ls",
    "list": "ls",
    "new": "spawn",
    "run": "spawn",
    "show": "status",
    "logs": "tail",
    "messages": "log",
}
"""Names of other tools for commands of sm. Help and completion omit them."""
_SUGGESTIONS = {
    "stop": ("interrupt", "kill"),
    "remove": ("rm",),
    "delete": ("rm",),
    "continue": ("restore --continue", "send"),
    "start": ("spawn", "daemon start"),
    "create": ("spawn", "workspace create"),
    "restart": ("restore", "daemon restart"),
    "worktrees": ("worktree ls", "spawn --worktree"),
    "model": ("spawn --model",),
    "open": ("attach",),
    "exec": ("attach", "send"),
    "info": ("status",),
    "inspect": ("status",),
    "reply": ("answer", "send"),
    "msg": ("send",),
    "tell": ("send",),
    "chat": ("send", "attach"),
    "talk": ("send", "attach"),
    "cost": ("ls", "progress"),
    "watch": ("top", "ls --watch", "events --follow"),
    "history": ("tail", "events"),
    "init": ("doctor", "trust"),
    "login": ("doctor", "sandbox login"),
    "sessions": ("ls", "all"),
    "session": ("ls", "all", "status"),
    "tree": ("all",),
    "view": ("status", "output"),
    "describe": ("status", "what"),
    "read": ("output", "tail"),
    "find": ("search",),
    "grep": ("search",),
    "mail": ("inbox",),
    "notes": ("status",),
    "question": ("requests",),
    "whoami": ("me",),
    "report": ("checkpoint", "complete"),
    "done": ("complete",),
    "finish": ("complete",),
    "notify": ("send",),
    "killall": ("kill --all",),
    "clone": ("fork",),
    "up": ("daemon start",),
    "down": ("daemon stop",),
    "quit": ("daemon stop",),
    "message": ("send",),
    "get": ("status",),
    "cleanup": ("prune",),
}
"""Names of other tools that have no exact counterpart, or whose counterpart changes or deletes something."""
MODULES = {
    **dict.fromkeys(("all", "children", "who", "others"), "lists"),
    **dict.fromkeys(("answer", "deny", "reject"), "approve"),
    **dict.fromkeys(("unarchive", "seen"), "archive"),
    **dict.fromkeys(("checkpoint", "checkpoints", "note", "complete"), "reports"),
    **dict.fromkeys(("completion", "version"), "help"),
    "prune": "rm",
    "resume": "pause",
}
"""The modules of commands that have none of their own name. Each command is NAME_command there."""
_NAMES = tuple(name for _, name, _ in COMMANDS)
_NAME_WIDTH = max(map(len, _NAMES))


class LazyGroup(click.Group):
    """A group of the commands in `COMMANDS` and `INTERNAL`, each in a module of `sm.cli.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if not _exists(cmd_name):
            return None
        return load_command(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = ALIASES.get(args[0], args[0])
        if not name.startswith("-") and not _exists(name):
            suggested = _suggested(_SUGGESTIONS.get(name) or _similar(name, _NAMES))
            raise click.UsageError(f"unknown command {name!r}{suggested}", ctx)
        args = [name, *args[1:]]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_commands(formatter, COMMON)
        formatter.write(f'\n{COMMAND_HELP}\nRun "sm help --all" for all commands.\n')

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        commands = [(name, line) for _, name, line in COMMANDS if name.startswith(incomplete)]
        names = [CompletionItem(name, help=line) for name, line in commands]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


class CommandGroup(click.Group):
    """A command with subcommands. An error suggests the one that a wrong name probably means.

    `suggestions` has for a word of other tools the commands to suggest, without `sm`.
    """

    def __init__(self, *args: Any, suggestions: Mapping[str, Sequence[str]] = {}, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._suggestions = suggestions

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in self.commands:
            similar = [f"{ctx.info_name} {known}" for known in _similar(name, self.commands)[:1]]
            suggested = _suggested(self._suggestions.get(name) or similar)
            raise click.UsageError(f"unknown command {name!r}{suggested}", ctx)
        return super().resolve_command(ctx, args)


def load_command(name: str) -> click.Command:
    """Import the command `name` of `COMMANDS` or `INTERNAL`."""
    shared = MODULES.get(name)
    module = import_module(f"sm.cli.commands.{shared or name}")
    command = getattr(module, f"{name}_command" if shared else "command")
    assert isinstance(command, click.Command)
    return command


def write_commands(formatter: click.HelpFormatter, names: Collection[str] = _NAMES) -> None:
    """Write the commands of `names` with their first lines of help, by section."""
    commands = [command for command in COMMANDS if command[1] in names]
    width = _NAME_WIDTH if names is _NAMES else max(map(len, names))
    for section in dict.fromkeys(section for section, _, _ in commands):
        with formatter.section(section):
            formatter.write_dl(
                [(name.ljust(width), line) for group, name, line in commands if group == section]
            )


def _exists(name: str) -> bool:
    return name in _NAMES or name in INTERNAL


def _similar(name: str, names: Collection[str]) -> Sequence[str]:
    from difflib import get_close_matches

    return get_close_matches(name, list(names))


def _suggested(commands: Sequence[str]) -> str:
    """The end of an error message; empty without commands."""
    return f"; did you mean {' or '.join(commands)}?" if commands else ""


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", "-V", prog_name="sm", message="%(prog)s %(version)s")
def sm() -> None:
    """Run coding agents in the background, each in its own terminal.

    Wherever a command takes a SESSION, give the session's name, its ID, or at least the first 4
    characters of its ID.

    \b
    Examples:
      sm spawn Engineer "Implement the login endpoint" --name login
      sm ls
      sm attach engineer-login
    """


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code. Errors are for `display.errors.print_error`."""
    if sys.platform != "linux":
        raise PlatformUnsupported(f"sm runs only on Linux (including WSL2), not on {sys.platform}")
    _open_closed_streams()
    if COMPLETE in os.environ:
        return _complete()
    arguments = list(arguments) or ["--help"]
    if sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # TextIO in typeshed, a TextIOWrapper here
    with sm.make_context("sm", arguments) as context:
        code = sm.invoke(context)
    return code if isinstance(code, int) else 0


def _open_closed_streams() -> None:
    """Discard the output of a command that was started without stdout or stderr (`>&-`)."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  open until the end


def _complete() -> int:
    """Answer the shell's completion script, which runs at every press of Tab."""
    from click.shell_completion import shell_complete

    try:
        return shell_complete(sm, {}, "sm", COMPLETE, os.environ[COMPLETE])
    except Exception:  # noqa: BLE001  a traceback would appear in the user's command line
        return 1
