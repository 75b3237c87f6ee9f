"""Serves live views to browsers, and manages their logins, for `sm web`."""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from sm.cli.call import Call, json_option
from sm.cli.display.text_table import Table
from sm.cli.group import CommandGroup
from sm.cli.installation import SEGNO, install_command
from sm.cli.instance import Instance
from sm.cli.options import absolute
from sm.core.lines import age
from sm.core.timestamps import iso
from sm.errors import DaemonUnavailable, NotPermitted, UsageError

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.web.address import WebAddress
    from sm.web.login_store import LoginStore

Command = TypeVar("Command", bound=Callable[..., Any])


def _link_options(command: Command) -> Command:
    for option in (  # the last one comes first in the help
        click.option(
            "--qr", is_flag=True, help="Print the link as a QR code too, if another device can open it."
        ),
        click.option(
            "--phone", is_flag=True, help="The same as --scope answer --qr, for the first of web.hosts."
        ),
        click.option(
            "--name", metavar="NAME", help="Name of the login; default: browser-1, phone-1 and so on."
        ),
        click.option(
            "--scope",
            type=click.Choice(["look", "answer", "all"]),
            help="look: read only; answer: also answer, send, interrupt and archive; all: everything.  "
            "[default: all]",
        ),
    ):
        command = option(command)
    return command


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--port", type=click.IntRange(0, 65535), help="Port; 0: any free one.  [default: web.port]")
@click.option(
    "--bind",
    metavar="ADDRESS",
    help="IP address to listen on. Without a certificate only one of this machine.  [default: web.bind]",
)
@click.option("--cert", metavar="FILE", help="Certificate in PEM format, for https.  [default: web.cert]")
@click.option("--key", metavar="FILE", help="Key of the certificate.  [default: web.key]")
@click.option(
    "--service", is_flag=True, help="Print the address in place of a link, start no daemon, log to stderr."
)
@_link_options
@click.pass_context
def command(
    context: click.Context,
    port: int | None,
    bind: str | None,
    cert: str | None,
    key: str | None,
    service: bool,
    scope: str | None,
    name: str | None,
    phone: bool,
    qr: bool,
) -> None:
    """Watch and direct agents in a browser, also on a phone.

    Serves the page on 127.0.0.1 in the foreground, and prints a link that logs in one browser. The link works once,
    within two minutes. Ctrl-C ends the server; the agents keep running.

    Other devices reach the page through a tunnel (see docs/guide/web.md). With a certificate and its key, the server
    speaks https and can listen on any address of this machine.

    With web.start_with_daemon: true in the configuration, the daemon runs the server in the background, and sm web link
    prints a link. --service is for systemd (see docs/guide/web.md).

    The command is for people: an agent cannot run it.

    \b
    Exit codes:
      0  you ended the server
      2  an option is wrong, or the certificate cannot be used
      5  an agent ran the command
      7  sm web runs already
      9  the port is in use

    \b
    Examples:
      sm web
      sm web --port 0 --scope look
      sm web --bind 192.168.1.5 --cert cert.pem --key key.pem
    """
    instance = _operator()
    if context.invoked_subcommand is not None:
        return
    from sm.web.binding import web_binding
    from sm.web.process import serve
    from sm.web.settings import read_settings

    # Checked before the server starts, with the rest of the options.
    ready = _printer(scope, name, service=service, phone=phone, qr=qr)
    settings = read_settings(instance.paths.config)
    binding = web_binding(
        settings.bind if bind is None else bind,
        settings.port if port is None else port,
        settings.hosts,
        settings.cert if cert is None else absolute(cert),
        settings.key if key is None else absolute(key),
    )
    if not service:
        instance.client().get("/v1/health")  # starts the daemon, or says why that fails
    serve(instance.socket_path, instance.paths.web, binding, ready)


@command.command()
@_link_options
def link(scope: str | None, name: str | None, phone: bool, qr: bool) -> None:
    """Print a link that logs in another browser.

    \b
    Exit codes:
      0  printed
      2  the name is in use
      7  sm web does not run

    \b
    Examples:
      sm web link --scope look --name wall
      sm web link --phone
    """
    from sm.web.address import running_server
    from sm.web.login_store import LoginStore

    directory = _operator().paths.web
    address = running_server(directory)
    if address is None:
        raise DaemonUnavailable("sm web is not running", "sm web")
    _link_printer(scope, name, phone=phone, qr=qr)(address, LoginStore(directory))


@command.command()
@json_option
def logins(call: Call) -> None:
    """List the logins of browsers, and when each was last used.

    \b
    Examples:
      sm web logins
    """
    stored = _store().read().without_old(time.time())
    shown = [
        {
            "name": login.name,
            "scope": login.scope.value,
            "created_at": iso(login.created_s),
            "last_used_at": iso(login.used_s),
        }
        for login in stored.logins
    ]
    call.show_value(shown, _login_table)


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "every", is_flag=True, help="End all logins.")
def revoke(names: tuple[str, ...], every: bool) -> None:
    """End logins. Their tabs close at once.

    \b
    Examples:
      sm web revoke phone-1
      sm web revoke --all
    """
    store = _store()
    if every == bool(names):
        raise UsageError("name the logins to end, or use --all", "list logins: sm web logins")
    for name in names or (None,):
        for ended in store.revoke(name):
            click.echo(f"ended the login {ended}")


def _operator() -> Instance:
    instance = Instance(os.environ)
    if instance.session_id is not None:
        raise NotPermitted("sm web is for people, not for agents", "to list sessions: sm ls")
    return instance


def _store() -> "LoginStore":
    from sm.web.login_store import LoginStore

    return LoginStore(_operator().paths.web)


def _printer(
    scope: str | None, name: str | None, *, service: bool, phone: bool, qr: bool
) -> "Callable[[WebAddress, LoginStore], None]":
    """Return the function that prints how to reach the server. Raises UsageError."""
    print_link = _link_printer(scope, name, phone=phone, qr=qr)
    if not service:
        return print_link
    if scope or name or phone or qr:
        raise UsageError("--service prints no link", "for a link: sm web link")
    return _address_printer()


def _link_printer(
    scope: str | None, name: str | None, *, phone: bool, qr: bool
) -> "Callable[[WebAddress, LoginStore], None]":
    """Return the function that makes a login code and prints its link. Raises UsageError."""
    from sm.web.logins import WebScope

    granted = WebScope(scope or ("answer" if phone else "all"))
    draw = _qr_drawer() if qr or phone else None

    def print_link(address: "WebAddress", store: "LoginStore") -> None:
        default_name = "phone" if phone else "browser"
        code, login = store.add_code(name, granted, time.time(), default_name=default_name)
        outside = address.link_for_others(code)
        url = outside if phone and outside is not None else address.link(code)
        click.echo(url)
        if draw is not None and outside is not None:
            click.echo(draw(outside))
        if draw is not None and outside is None:
            click.echo(
                "no QR code: only this machine can open the link; for a phone set web.hosts to the name of a tunnel",
                err=True,
            )
        click.echo(f"logs in {login} ({granted}), once, within two minutes", err=True)

    return print_link


def _address_printer() -> "Callable[[WebAddress, LoginStore], None]":
    """Return the function that prints the address of the server. Logs to stderr from now on."""
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")

    def print_address(address: "WebAddress", store: "LoginStore") -> None:
        click.echo(f"serves {address.origin}")

    return print_address


def _qr_drawer() -> Callable[[str], str]:
    try:
        import segno
    except ModuleNotFoundError:
        raise UsageError(
            "a QR code needs the package segno, which is not installed here",
            f"install it: {install_command(SEGNO)}",
        ) from None

    def draw(url: str) -> str:
        import io

        text = io.StringIO()
        segno.make(url, error="m", micro=False).terminal(out=text, compact=True)
        return text.getvalue().rstrip("\n")

    return draw


def _login_table(shown: Any) -> Table:
    from sm.cli.display.output import now

    at = now()
    rows = [
        (
            entry["name"],
            entry["scope"],
            f"logged in {age(entry['created_at'], at)}",
            f"used {age(entry['last_used_at'], at)}",
        )
        for entry in shown
    ]
    return Table(rows, aligned=3, empty="no logins; for a link: sm web link")
