"""Serve the tools of sm to an MCP client on stdin and stdout.

Agent CLIs start this command; every claude agent has it as the MCP server sm. It passes messages on to the daemon,
waits up to 60 seconds for a daemon that is away, and never starts one. The tools act for the session that runs the
command.

\b
Exit codes:
  0  the client closed stdin
  5  no session runs this command, and --operator is missing

\b
Examples:
  sm mcp --print-config codex >> ~/.codex/config.toml
  sm mcp --operator
"""

import os

import click

from sm.cli.instance import Instance
from sm.cli.mcp.client_config import CLIENTS, config, place
from sm.cli.mcp.pump import serve
from sm.errors import NotFound, NotPermitted


@click.command(help=__doc__)
@click.option("--operator", is_flag=True, help="Act as the operator outside a session, without report tools.")
@click.option("--verbose", is_flag=True, help="Log connections to the daemon on stderr.")
@click.option(
    "--print-config",
    "client",
    metavar="[CLIENT]",
    is_flag=False,
    flag_value="json",
    type=click.Choice(list(CLIENTS)),
    help=f"Print the configuration for an MCP client: {', '.join(CLIENTS)}.  [default: json]",
)
def command(operator: bool, verbose: bool, client: str | None) -> None:
    instance = Instance(os.environ)
    if client is not None:
        click.echo(place(client), err=True)
        click.echo(config(client, instance.paths, operator=operator), nl=False)
        return
    if not operator and instance.session_id is None:
        _require_session(instance)
    token_file = None if instance.session_id is None else os.environb.get(b"SM_TOKEN_FILE")
    serve(os.fsencode(instance.socket_path), token_file, verbose=verbose)


def _require_session(instance: Instance) -> None:
    """Raise NotPermitted outside a session. The daemon knows the caller, also without the variables of a session."""
    try:
        instance.client(start=False).get("/v1/me")
    except NotFound:
        raise NotPermitted(
            "no session runs this command, so its tools would have no session to act for",
            "to manage sessions as the operator: sm mcp --operator",
        ) from None
