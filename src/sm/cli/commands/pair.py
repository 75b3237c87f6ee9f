"""Pairs and revokes users of chat networks, for `sm pair`."""

import click

from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.cli.display.text_table import Table
from sm.cli.options import pair_requests, paired_users, workspaces
from sm.client.http import percent_encode
from sm.core.lines import JsonObject, age, line, plural


@click.group()
def command() -> None:
    """Pair users of Telegram with this instance, or revoke them.

    A user who is not paired, and who writes /start to the bot, becomes a request for one day. Approve it only if you
    know the number of the user: anybody can choose any name. Agents cannot use these commands.

    \b
    Examples:
      sm pair list
      sm pair approve p3
    """


_request = click.argument("request", metavar="ID", shell_complete=pair_requests)


@command.command("list")
@json_option
def list_command(call: Call) -> None:
    """List the open requests and the paired users.

    \b
    Examples:
      sm pair list
    """
    call.get("/v1/pairings", _table)


@command.command()
@_request
@click.option(
    "--trust",
    metavar="LEVEL",
    help="Trust level: sandboxed (default) starts agents in a sandbox only, direct also on this machine.",
)
@click.option(
    "--workspace",
    metavar="WORKSPACE",
    shell_complete=workspaces,
    help="Let the user see and control this workspace, and no other sessions.",
)
@json_option
def approve(request: str, trust: str | None, workspace: str | None, call: Call) -> None:
    """Pair the user of a request.

    The user sees and controls the sessions that they start, and the sessions below these. With --workspace the user
    sees and controls all sessions of a workspace.

    \b
    Examples:
      sm pair approve p3
      sm pair approve p3 --trust direct --workspace shop
    """
    body = {"trust": trust, "workspace": workspace}
    call.post(f"/v1/pairings/{percent_encode(request)}/approve", _paired, body)


@command.command()
@_request
@json_option
def deny(request: str, call: Call) -> None:
    """Deny a request. The user cannot ask again for a day.

    \b
    Examples:
      sm pair deny p3
    """
    call.post(f"/v1/pairings/{percent_encode(request)}/deny", lambda denied: [f"Denied {_who(denied)}"])


@command.command()
@click.argument("user", metavar="USER", shell_complete=paired_users)
@json_option
def revoke(user: str, call: Call) -> None:
    """End the pairing of a user. Their agents keep running.

    The agents belong to you from then on. USER is the name or the number of the user, as in sm pair list.

    \b
    Examples:
      sm pair revoke telegram:4711
    """
    call.post(f"/v1/pairings/{percent_encode(user)}/revoke", _revoked)


def _table(overview: JsonObject) -> Table:
    requests = [
        (
            request["request_id"],
            line(request["user"]),
            f"{age(request['created_at'], now())}: {line(request['label'])}",
        )
        for request in overview["requests"]
    ]
    users = [(user["trust_level"], line(user["user"]), _description(user)) for user in overview["users"]]
    return Table([*requests, *users], aligned=2, empty="No requests and no paired users")


def _description(user: JsonObject) -> str:
    where = "" if user["workspace"] is None else f" (workspace {line(user['workspace'])})"
    return f"{line(user['label'])}{where}"


def _who(user: JsonObject) -> str:
    return f"{line(user['user'])} ({line(user['label'])})"


def _paired(user: JsonObject) -> list[str]:
    where = "" if user["workspace"] is None else f" in workspace {line(user['workspace'])}"
    return [f"Paired {_who(user)} as {user['trust_level']}{where}"]


def _revoked(revoked: JsonObject) -> list[str]:
    return [
        f"Revoked {line(revoked['user'])}; you have {plural(revoked['sessions'], 'session')} of this user"
    ]
