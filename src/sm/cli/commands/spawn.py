"""Start an agent in a terminal of its own.

AGENT_TYPE is one that sm agents lists (Engineer, Architect, ...). PROMPT is its task; `-` reads it from
standard input; without one the agent is interactive and waits for you.

\b
Example:
  sm spawn Engineer "Implement the login endpoint" --name login
"""

import os
import shlex
import sys
from typing import Any

import click

from sm.cli.call import Call, json_option
from sm.cli.display.sessions import label
from sm.cli.display.text import line
from sm.cli.options import absolute, agent_types, rate_wait_option, session_names, workspaces
from sm.client.http import TIMEOUT_S, new_key
from sm.errors import InvalidText, SmError, UsageError
from sm.wire import decode


@click.command(help=__doc__)
@click.argument("agent_type", shell_complete=agent_types)
@click.argument("prompt", required=False)
@click.option("--model", metavar="MODEL", help="Another model than the agent type's.")
@click.option(
    "--args", "arguments", metavar="ARGS", help="More arguments for the agent, quoted as for a shell."
)
@click.option("--preset", metavar="NAME", help="A preset of the configuration.")
@click.option("--parent", metavar="ID", shell_complete=session_names, help="The parent; yourself by default.")
@click.option("--working-dir", metavar="PATH", help="Where it works; here by default.")
@click.option(
    "--workspace",
    metavar="SLUG",
    shell_complete=workspaces,
    help="Its workspace; that of its directory by default, - is none.",
)
@click.option(
    "--worktree",
    is_flag=True,
    help="Give it a git worktree and a branch sm/NAME of its own; sm rm cleans it when nothing would be lost.",
)
@click.option("--title", metavar="TEXT", help="What it is about, in a few words.")
@click.option("--name", metavar="NAME", help="A friendly name, unique among live sessions.")
@click.option("--trust", metavar="LEVEL", help="sandboxed or direct.")
@click.option(
    "--wait", "wait_s", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait until it is ready."
)
@rate_wait_option
@click.option("--attach", is_flag=True, help="Put its terminal on yours at once.")
@json_option
def command(
    prompt: str | None,
    arguments: str | None,
    working_dir: str | None,
    worktree: bool,
    rate_wait_s: float,
    attach: bool,
    call: Call,
    **settings: Any,
) -> None:
    if attach and call.as_json:
        raise UsageError("--attach and --json exclude each other")
    if attach and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--attach needs a terminal", "leave it out, and type sm attach ID in one")
    instance = call.instance
    client = instance.client(rate_wait_s=rate_wait_s)
    body = {
        **settings,
        "prompt": _prompt(prompt),
        "args": _split(arguments),
        **_directory(working_dir, instance.session_id),
    }
    if instance.session_id is None:
        body["environment"] = _environment()
    tree = None
    if worktree:
        from sm.cli.worktrees import directory_of, make

        parent, workspace, name = settings["parent"], settings["workspace"], settings["name"]
        directory = directory_of(client, working_dir, parent, workspace, instance.session_id)
        tree = make(client, directory, os.urandom(4).hex() if name is None else name.lower())
        body |= {"working_dir": tree.directory, "worktree": tree.path, "branch": tree.branch}
    try:
        timeout_s = TIMEOUT_S + (settings["wait_s"] or 0)
        text = client.text("POST", "/v1/sessions", body=body, key=new_key(), timeout_s=timeout_s)
    except SmError as error:
        # After a retry, the daemon may have executed the first request.
        if tree is not None and not client.repeated:
            tree.roll_back(client, error)
        raise
    call.show_changed(
        text, lambda session: [f"Spawned {label(session)} in tmux session {line(session['tmux_session'])}"]
    )
    if attach:
        from sm.cli.commands import attach as attachment

        attachment.attach(client, decode(text)["session_id"])


def _prompt(prompt: str | None) -> str | None:
    if prompt == "-":
        from sm.cli.stdin import read_text
        from sm.core.text import PROMPT_MAX

        prompt = read_text("prompt", PROMPT_MAX).rstrip("\n")
    if prompt is not None and not prompt.strip():
        raise InvalidText("the prompt is empty", "leave it out for an interactive agent")
    return prompt


def _split(arguments: str | None) -> list[str]:
    try:
        return shlex.split(arguments or "")
    except ValueError as error:
        raise UsageError(
            f"--args: {str(error).lower()}", "quote it as for a shell: --args '--flag \"two words\"'"
        ) from None


def _directory(working_dir: str | None, session_id: str | None) -> dict[str, str]:
    """Build the directory fields of the body. A session's child inherits its parent's directory."""
    if working_dir is not None:
        return {"working_dir": absolute(working_dir)}
    if session_id is not None:
        return {}
    try:
        return {"cwd": os.getcwd()}
    except FileNotFoundError:
        raise UsageError("the directory you are in is gone", "cd to another, or give --working-dir") from None


def _environment() -> dict[str, str]:
    """Copy the environment without variables that are not UTF-8. The daemon keeps the configured ones."""
    variables = {}
    for name, value in os.environ.items():
        try:
            (name + value).encode("utf-8")
        except UnicodeEncodeError:
            continue
        variables[name] = value
    return variables
