"""Shows the agent CLIs, and keeps versions of them, for `sm provider`."""

import os
from collections.abc import Iterable, Iterator

import click

from sm.cli.agent_programs import configured_program, kept_programs, name_argument, names_no_path
from sm.cli.call import Call, json_option
from sm.cli.commands.check import run_check
from sm.cli.display.text_table import Table
from sm.cli.instance import Instance
from sm.core.lines import JsonObject, line
from sm.errors import ExternalError, IllegalState, NotPermitted, SmError

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.providers.checks import CheckRecord
    from sm.providers.kept_programs import KeptPrograms

INSTALLED = "installed"
"""The word for the program on the PATH of agents, in place of a version."""


@click.group()
def command() -> None:
    """Show the agent CLIs, and choose their versions.

    Agent CLIs update themselves. A version that sm keeps stays as it is, and was checked (sm check). It is for agents
    on this machine: containers have the version of their image. Agents that run already keep their version.

    \b
    Examples:
      sm provider ls
      sm provider use claude 2.1.332
    """


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> Iterable[str]:
    kept = kept_programs(Instance(os.environ), str(context.params.get("name"))).versions()
    return [version for version in (*kept, INSTALLED) if version.startswith(incomplete)]


_version = click.argument("version", metavar="VERSION", shell_complete=_complete)


@command.command("ls")
@json_option
def list_command(call: Call) -> None:
    """List the agent CLIs with their versions.

    The version that new agents use has a star. The last column says whether its contracts hold (sm check). The JSON is
    [{"name", "version", "program", "kept", "used", "checked_at", "broken"}].

    \b
    Examples:
      sm provider ls
    """
    from sm.providers import checked_providers

    call.show_value(
        [entry for name in checked_providers() for entry in _entries(call.instance, name)], _table
    )


@command.command()
@name_argument
@_version
@click.option("--anyway", is_flag=True, help="Use the version even if contracts are broken.")
@json_option
def use(name: str, version: str, anyway: bool, call: Call) -> None:
    """Let new agents use this version, and keep it as it is.

    Gets the version with npm, unless it is kept already, and checks it (sm check). A version with a broken contract is
    used only with --anyway. VERSION "installed" means the program on the PATH of agents, as without this command.

    The JSON is {"name", "version", "broken"}.

    \b
    Exit codes:
      0  new agents use it
      3  npm is not installed
      9  npm failed, or a contract is broken

    \b
    Examples:
      sm provider use claude 2.1.332
      sm provider use claude installed
    """
    _require_operator(call.instance)
    kept = kept_programs(call.instance, name)
    if version == INSTALLED:
        kept.use(None)
        call.show_value(
            {"name": name, "version": None, "broken": []},
            lambda _: [f"New agents use the {name} on their PATH"],
        )
        return
    _require_plain_program(call.instance, name)
    _switch(call, name, kept, version, anyway=anyway)


@command.command()
@name_argument
@json_option
def update(name: str, call: Call) -> None:
    """Move on to the newest version if all its contracts hold.

    Gets the version with npm and checks it (sm check). If a contract is broken, new agents go on with their version.
    The JSON is that of sm provider use.

    \b
    Exit codes:
      0  new agents use the newest version
      3  npm is not installed
      9  npm failed, or a contract is broken

    \b
    Examples:
      sm provider update claude
    """
    _require_operator(call.instance)
    _require_plain_program(call.instance, name)
    kept = kept_programs(call.instance, name)
    _switch(call, name, kept, kept.newest(), anyway=False)


@command.command()
@name_argument
@_version
@json_option
def rm(name: str, version: str, call: Call) -> None:
    """Remove a kept version that new agents do not use.

    Agents that run it go on. The JSON is {"name", "version"}.

    \b
    Examples:
      sm provider rm claude 2.1.331
    """
    _require_operator(call.instance)
    kept_programs(call.instance, name).remove(version)
    call.show_value({"name": name, "version": version}, lambda _: [f"Removed {name} {version}"])


def _switch(call: Call, name: str, kept: "KeptPrograms", version: str, *, anyway: bool) -> None:
    if version not in kept.versions() and not call.as_json:
        click.echo(f"Getting {name} {line(version, 60)} with npm")
    kept.install(version)
    program = kept.program(version)
    from sm.providers.checks import CheckRecords

    record = CheckRecords(call.instance.paths.checks).find(name, program)
    if record is None:
        record = run_check(call, name, program)
    broken = [outcome.name for outcome in record.broken]
    if broken and not anyway:
        raise ExternalError(
            f"{name} {version} breaks {', '.join(broken)}: new agents go on with their version",
            f"sm provider use {name} {version} --anyway",
        )
    kept.use(version)
    call.show_value(
        {"name": name, "version": version, "broken": broken}, lambda _: [f"New agents use {name} {version}"]
    )


def _entries(instance: Instance, name: str) -> Iterator[JsonObject]:
    kept, program = kept_programs(instance, name), configured_program(instance, name)
    current = kept.current()
    from sm.providers.checks import CheckRecords, locate

    records = CheckRecords(instance.paths.checks)
    if program is not None:
        try:
            path = locate(program, os.environ.get("PATH"))
        except SmError:
            pass  # it is not installed
        else:
            yield _entry(name, None, path, records.find(name, path), used=current is None)
    for version in kept.versions():
        path = kept.program(version)
        yield _entry(name, version, path, records.find(name, path), used=version == current)


def _entry(
    name: str, version: str | None, path: str, record: "CheckRecord | None", *, used: bool
) -> JsonObject:
    return {
        "name": name,
        "version": version or (_version_of(path) if record is None else record.program.version),
        "program": path,
        "kept": version is not None,
        "used": used,
        "checked_at": None if record is None else record.checked_at,
        "broken": None if record is None else [outcome.name for outcome in record.broken],
    }


def _version_of(path: str) -> str | None:
    """Return the version that a program says, or None if it says none."""
    from sm.providers.checks import version_of

    try:
        return version_of(path)
    except ExternalError:
        return None


def _table(entries: list[JsonObject]) -> Table:
    rows = [
        (
            "*" if entry["used"] else "",
            str(entry["name"]),
            str(entry["version"] or "?"),
            "kept" if entry["kept"] else INSTALLED,
            _verdict(entry),
        )
        for entry in entries
    ]
    return Table(rows, 4, "no agent CLI is installed")


def _verdict(entry: JsonObject) -> str:
    if entry["checked_at"] is None:
        return f"not checked: sm check {entry['name']}"
    day, broken = str(entry["checked_at"])[:10], entry["broken"]
    return f"checked on {day}: {'broken: ' + ', '.join(broken) if broken else 'all contracts hold'}"


def _require_plain_program(instance: Instance, name: str) -> None:
    """Raises IllegalState if the configuration names a program, which agents would go on to use."""
    if not names_no_path(instance, name):
        raise IllegalState(
            f"the configuration names the program of {name}", f"remove {name}.default_command: sm config edit"
        )


def _require_operator(instance: Instance) -> None:
    if instance.session_id is not None:
        raise NotPermitted("only the operator may choose the version of an agent CLI")
