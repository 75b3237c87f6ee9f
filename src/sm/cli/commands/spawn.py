"""Start an agent in its own terminal.

AGENT_TYPE is an agent type, such as Engineer; sm agents lists them. PROMPT is the task; if it is -, it is read from
stdin. PROMPT may begin with a dash if it has a blank; otherwise put -- before it. Without PROMPT the agent starts and
waits for input. The command returns as soon as the agent's process runs,
or, with --wait, when the agent is ready.

Without arguments, on a terminal, sm asks for the task, the agent type, the directory and the rest, shows what a start
does, and prints the command before it runs it.

Before the start, sm checks whether claude would open a dialog: its first-time setup, trust in the directory, or
permission to bypass permissions. On a terminal, sm asks you. Elsewhere the command fails, and the hint is the command
that answers the dialog.

\b
Exit codes with --wait:
  0   the agent is ready
  9   the agent did not start, or is not ready because of an error or a dialog
  10  timed out; the agent keeps starting

\b
Examples:
  sm spawn
  sm spawn Engineer "Implement the login endpoint" --name login
  sm spawn Engineer - --worktree < task.md
  sm spawn Writer "Shorten the second chapter" --copy
  sm spawn Engineer "Make the page look like this" --file design.png
"""

import os
import re
import shlex
import sys
from typing import Any

import click
from click.core import ParameterSource

from sm.cli.attached_files import file_option, read_files, uploaded
from sm.cli.call import Call, json_option
from sm.cli.instance import Instance
from sm.cli.options import (
    TextCommand,
    absolute,
    agent_types,
    current_directory,
    rate_wait_option,
    running_sessions,
    seconds_option,
    workspaces,
)
from sm.client.environment import environment
from sm.client.http import START_TIMEOUT_S, Client, decode_answer, new_key
from sm.core.lines import line, plural
from sm.core.session_lines import name_and_id
from sm.core.statuses import Status
from sm.errors import InvalidText, SetupRequired, SmError, UnknownAgentType, UsageError
from sm.linux.process_limits import soft_limits

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def explain(error: UnknownAgentType, instance: Instance, directory: str, name: str) -> UnknownAgentType:
    """The error with a hint at the file that defines the type in `directory` or above, if there is one."""
    try:
        found = _definition_above(instance, directory, name)
    except SmError:  # a broken configuration
        found = None
    if found is None:
        return error
    root, path = found
    return UnknownAgentType(
        error.message,
        f"{line(path, 4096)} is used only by agents of a workspace in {line(root, 4096)}: "
        f"sm workspace create SLUG --working-dir {line(root, 4096)}",
    )


def _definition_above(instance: Instance, directory: str, name: str) -> tuple[str, str] | None:
    """The project's directory and the path of the definition."""
    from sm.config import load
    from sm.providers import make_providers

    if not _NAME.fullmatch(name):
        return None
    config = load(instance.paths.config).config
    definitions = [provider.definitions for provider in make_providers(config).values()]
    places = [(".sm", "agents"), *(known.project_directory for known in definitions if known is not None)]
    home = os.path.expanduser("~")
    at = os.path.realpath(directory)
    while at != os.path.dirname(at) and at != home:
        for place in places:
            path = os.path.join(at, *place, f"{name}.md")
            if os.path.isfile(path):
                return at, path
        at = os.path.dirname(at)
    return None


class SpawnCommand(TextCommand):
    """A command that asks the operator for its arguments on a terminal, if it gets none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing and _can_ask():
            from sm.cli.spawn_questions import ask

            args = ask(Instance(os.environ).client())
        return super().parse_args(ctx, args)


def _can_ask() -> bool:
    return not os.environ.get("SM_SESSION_ID") and sys.stdin.isatty() and sys.stderr.isatty()


@click.command(help=__doc__, cls=SpawnCommand)
@click.argument("agent_type", shell_complete=agent_types)
@click.argument("prompt", metavar="[PROMPT]", required=False)
@click.option(
    "--model",
    metavar="MODEL",
    help="Model: opus, sonnet, haiku or a full name.  [default: the model of AGENT_TYPE]",
)
@click.option(
    "--args",
    "arguments",
    metavar="ARGS",
    help="More arguments for the agent's command, quoted as in a shell. Agents may use this option only if "
    "child_agents.allow_args is true.",
)
@click.option(
    "--preset", metavar="NAME", help="Preset of the configuration (claude.presets), such as quick-fix."
)
@click.option(
    "--parent",
    metavar="SESSION",
    shell_complete=running_sessions,
    help="Parent of the new session.  [default: the session that runs this command]",
)
@click.option(
    "--working-dir",
    metavar="PATH",
    help="Working directory.  [default: the directory of the parent or of --workspace, else the current directory]",
)
@click.option(
    "--workspace",
    metavar="WORKSPACE",
    shell_complete=workspaces,
    help="Workspace; - for none.  [default: the workspace of the parent, else of the working directory]",
)
@click.option(
    "--worktree",
    is_flag=True,
    help="Create a git worktree and a branch sm/NAME for the agent. sm rm deletes them if no work would be lost.",
)
@click.option(
    "--copy",
    "is_copy",
    is_flag=True,
    help="Copy the working directory, which is in no git repository, for the agent. sm merge brings its changes back.",
)
@click.option(
    "--base",
    metavar="REF",
    help="Commit, tag or branch that the worktree begins with.  [default: the commit that is checked out]",
)
@click.option(
    "--branch",
    metavar="BRANCH",
    help="Branch of the worktree: one that exists, or the name of the new one.  [default: sm/NAME]",
)
@click.option(
    "--pr",
    "pull_request",
    metavar="N",
    type=click.IntRange(min=1),
    help="Begin the worktree with the head of pull request N of the remote repository.",
)
@click.option(
    "--remote-branch",
    metavar="BRANCH",
    help="Begin the worktree with a branch of the remote repository, which the new branch follows.",
)
@click.option(
    "--remote",
    metavar="NAME",
    help="Remote of --pr or --remote-branch, such as upstream.  [default: origin, or the only one; needed for --pr if "
    "there is an upstream too]",
)
@click.option(
    "--prompt-file",
    metavar="FILE",
    type=click.Path(),
    help="Read the prompt from FILE; - means stdin.",
)
@file_option(
    "File that belongs to the prompt, such as a screenshot; a line at the end of the prompt says where the agent finds "
    "it. May be given several times. Agents may not use this option."
)
@click.option(
    "--env",
    "variables",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Environment variable of the agent and its children; without =VALUE, its value in this shell. May be given "
    "several times. Agents may use this option only if child_agents.allow_args is true.",
)
@click.option("--title", metavar="TEXT", help="Short description of the task.")
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the session, unique among live sessions. sm adds the agent type: login becomes engineer-login.",
)
@click.option(
    "--trust",
    metavar="LEVEL",
    help="Trust level: sandboxed or direct.  [default: the level of the parent, the workspace or the configuration]",
)
@click.option(
    "--lifecycle",
    metavar="MODE",
    help="Completion of the session: auto, manual or supervised.  [default: the mode of the agent type, the workspace "
    "or the configuration]",
)
@click.option(
    "--restart",
    metavar="POLICY",
    help="Start the agent again when its process crashes: never or on-failure.  [default: the policy of the agent "
    "type]",
)
@click.option(
    "--budget",
    metavar="LIMITS",
    help="Limits for the session and all sessions below it, such as usd=5,tokens=2M,minutes=90.  [default: that of the "
    "agent type or of the configuration]",
)
@click.option(
    "--skip-checks",
    is_flag=True,
    help="Start the agent even if its program is known to open a dialog of its first start.",
)
@click.option(
    "--as-command",
    is_flag=True,
    help="Let the agent's program run the prompt as its own command, such as '/review'. Otherwise it is a text. "
    "Agents may not use this option.",
)
@click.option(
    "--no-park",
    is_flag=True,
    help="Fail (exit code 6) if the agent's account is parked. Otherwise the agent starts at the reset.",
)
@seconds_option("--wait", "wait_s", most=None, help="Wait until the agent is ready, at most this long.")
@rate_wait_option
@click.option("--attach", is_flag=True, help="Attach to the agent's terminal after the start.")
@json_option
def command(
    prompt: str | None,
    prompt_file: str | None,
    arguments: str | None,
    variables: tuple[str, ...],
    working_dir: str | None,
    worktree: bool,
    is_copy: bool,
    files: tuple[str, ...],
    rate_wait_s: float,
    attach: bool,
    call: Call,
    **settings: Any,
) -> None:
    if attach and call.as_json:
        raise UsageError("--attach and --json cannot be used together")
    if worktree and is_copy:
        raise UsageError("--worktree and --copy cannot be used together")
    if attach and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "--attach needs a terminal", "omit --attach, then run in a terminal: sm attach SESSION"
        )
    instance = call.instance
    source = click.get_current_context().get_parameter_source("rate_wait_s")
    is_given = source is not ParameterSource.DEFAULT
    client = instance.client(rate_wait_s=rate_wait_s if is_given else None)
    body = {
        **settings,
        "prompt": _prompt(prompt, prompt_file),
        "args": _split(arguments),
        **_directory(working_dir, instance.session_id),
    }
    if variables:
        body["env"] = _variables(variables)
    if instance.session_id is None:
        body |= {"environment": environment(), "process_limits": soft_limits()}
    try:
        if worktree or is_copy:
            client.get("/v1/worktrees")  # an older daemon would start the agent without one
            body["new_worktree"] = True  # an older one refuses it in a directory that can be copied
        if is_copy:
            body["new_copy"] = True
        timeout_s = START_TIMEOUT_S + (settings["wait_s"] or 0)
        with uploaded(client, read_files(files)) as ids:
            if ids:
                body["files"] = ids
            text = _post(client, body, timeout_s, ask=not call.as_json and instance.session_id is None)
    except SmError as error:
        if isinstance(error, UnknownAgentType) and instance.session_id is None:
            error = explain(error, instance, body.get("working_dir") or body["cwd"], body["agent_type"])
        raise error from None
    call.show_with_warnings(text, _spawned)
    if attach:
        from sm.cli.commands import attach as attachment

        attachment.attach(client, decode_answer(text)["session_id"])


def _spawned(session: dict[str, Any]) -> list[str]:
    if session["status"] == Status.SPAWNED:  # its account is parked
        return [f"Spawned {name_and_id(session)}, which has not started: {line(session['status_reason'])}"]
    spawned = f"Spawned {name_and_id(session)} in tmux session {line(session['tmux_session'])}"
    mode, source, program = (
        session.get(name) for name in ("permission_mode", "permission_source", "program")
    )
    return [
        spawned,
        *_worktree_lines(session["worktree"], session.get("worktree_files", {})),
        *([] if mode is None else [f"Permission mode: {line(mode)} ({line(source)})"]),
        *([] if program is None else [f"Program: {line(program['line'])}"]),
    ]


def _worktree_lines(tree: dict[str, Any] | None, files: dict[str, Any]) -> list[str]:
    if tree is None:
        return []
    size = f"{max(1, round(files.get('copied_bytes', 0) / 1000)):,} kB"
    if files.get("copy_of"):
        copied = f"{plural(files['copied_files'], 'file')}, {size}"
        return [f"Copy of {line(files['copy_of'], 4096)}: {line(tree['path'], 4096)} ({copied})"]
    found = [f"Worktree: {line(tree['path'], 4096)}, branch {line(tree['branch'])}"]
    if files.get("copied_files"):
        found.append(f"Copied {plural(files['copied_files'], 'file')} that git does not track: {size}")
    if files.get("linked"):
        found.append(f"Linked to the repository: {', '.join(line(path) for path in files['linked'])}")
    return found


def _post(client: Client, body: dict[str, Any], timeout_s: float, *, ask: bool) -> str:
    """Start the agent. With `ask`, on a terminal, ask the operator about a dialog that would stop it."""
    answered: set[str] = set()
    while True:
        try:
            key = new_key()
            text = client.text("POST", "/v1/sessions", body=body, key=key, timeout_s=timeout_s)
            if body.get("new_worktree"):
                from sm.cli.worktrees import follow_worktree

                return follow_worktree(client, body, key, text, timeout_s)
            return text
        except SetupRequired as error:
            if not ask or error.code in answered or not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            from sm.cli.setup_questions import answer

            if not answer(error, body["agent_type"]):
                raise
            answered.add(error.code)


def _prompt(prompt: str | None, file: str | None) -> str | None:
    if prompt is not None and file is not None:
        raise UsageError("PROMPT and --prompt-file cannot be used together")
    if "-" in (prompt, file) or file is not None:
        from sm.cli.stdin import read_file, read_text
        from sm.core.text import PROMPT_MAX

        text = (
            read_text("prompt", PROMPT_MAX) if file in (None, "-") else read_file(file, "prompt", PROMPT_MAX)
        )
        prompt = text.rstrip("\n")
    if prompt is not None and not prompt.strip():
        raise InvalidText("the prompt is empty", "omit the prompt to start an interactive agent")
    return prompt


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    """Parse the values of --env. Raises UsageError."""
    variables = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals and name in os.environ:
            value = os.environ[name]
        elif not equals and name:
            raise UsageError(f"--env: the variable {name} is not set in this shell", f"--env {name}=VALUE")
        variables[name] = value
    return variables


def _split(arguments: str | None) -> list[str]:
    try:
        return shlex.split(arguments or "")
    except ValueError as error:
        raise UsageError(
            f"--args: {str(error).lower()}", "quote as in a shell: --args '--flag \"two words\"'"
        ) from None


def _directory(working_dir: str | None, session_id: str | None) -> dict[str, str]:
    """Build the directory fields of the body. A session's child inherits its parent's directory."""
    if working_dir is not None:
        return {"working_dir": absolute(working_dir)}
    if session_id is not None:
        return {}
    return {"cwd": current_directory()}
