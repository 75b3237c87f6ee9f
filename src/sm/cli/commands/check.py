"""Check that sm and an agent CLI still understand each other.

Starts the real program as an agent of a private instance, with a home, a daemon and a tmux server of its own, and
removes them at the end and after Ctrl-C. A scripted answer takes the place of the model: no account is used, no token
is spent, and your sessions are not touched.

Each line names one contract: what sm relies on. "ok" means that it holds with this program, "broken" that it does not,
with what was seen and what to do instead. What depends on a broken contract does not work as described; the rest does.
The outcome is kept for this program, and sm doctor shows it.

NAME is the name of the agent CLI. Without --program, the program is the one that your configuration starts.

The JSON is {"program": {"path", "version", "sha256", "size", "mtime_ns"}, "checked_at", "seconds", "outcomes":
[{"name", "sentence", "holds", "evidence", "seconds", "instead"}], "processor_s", "memory_bytes"}. The last two are the
cost of all processes of the check: their processor time, and the most memory that they used at one time.

\b
Exit codes:
  0  all contracts hold
  3  there is no such program
  9  a contract is broken, or the program does not start

\b
Examples:
  sm check claude
  sm check claude --program ~/other/claude
  sm check claude --contract plan --contract urgent
  sm check claude --facts
"""

import os
import resource
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict

import click

from sm.cli.agent_programs import check_of, name_argument, started_program
from sm.cli.call import Call, json_option
from sm.cli.display.output import now
from sm.cli.display.sandbox_tables import size
from sm.cli.instance import Instance
from sm.cli.options import current_directory
from sm.cli.private_instance import private_instance, start_undisturbed
from sm.client.http import Client
from sm.core.dataclass import dataclass
from sm.core.lines import line, plural
from sm.errors import ExternalError, NotPermitted, SmError, UsageError
from sm.linux.process_usage import memory_of, read_table

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from sm.config import Config
    from sm.providers.checks import CheckRecord, CheckStage, Outcome, ProgramCheck


_EVERY_S = 0.5
_TIMEOUT_S = 300
_PATIENT_TIMEOUT_S = 1500
"""For a check with the lowest priority beside many agents that work."""
_PATIENCE = 3


@dataclass(slots=True)
class CheckCost:
    """The cost so far. Both are complete when the measurement ends."""

    processor_s: float = 0.0
    memory_bytes: int = 0
    """The most that was used at one time. Shared memory counts once."""


@contextmanager
def measured(client: Client) -> Iterator[CheckCost]:
    """Measure the processes of the instance that `client` reaches, and this process, while the block runs."""
    cost, ended, began_s = CheckCost(), threading.Event(), _own_cpu_s()
    # Not the client of the contracts, which several threads use.
    follower = threading.Thread(target=_follow, args=(client, cost, ended), name="cost", daemon=True)
    follower.start()
    try:
        yield cost
    finally:
        ended.set()
        follower.join()
        cost.processor_s = round(cost.processor_s + _own_cpu_s() - began_s, 1)


def _follow(client: Client, cost: CheckCost, ended: threading.Event) -> None:
    """Look at the daemon, its tmux server and all below them until the end, and a last time then."""
    roots = list[int]()
    while True:
        is_last = ended.wait(_EVERY_S)
        if len(roots) < 2 or is_last:
            with suppress(SmError):
                status = client.get("/v1/status")
                roots = [
                    pid for pid in (status["daemon"]["pid"], status["terminal_server"]) if pid is not None
                ]
        table = read_table()
        cost.processor_s = max(cost.processor_s, table.tree_cpu_s(roots))
        memory = sum(memory_of(pid) for pid in {*table.tree(roots), os.getpid()})
        cost.memory_bytes = max(cost.memory_bytes, memory)
        if is_last:
            return


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@click.command(help=__doc__)
@name_argument
@click.option("--program", metavar="PATH", help="Check this program in place of the configured one.")
@click.option(
    "--contract",
    "contracts",
    metavar="CONTRACT",
    multiple=True,
    help="Try only this contract, and keep nothing.",
)
@click.option(
    "--patient",
    is_flag=True,
    help="Try a broken contract once more with longer time limits: for a busy machine.",
)
@click.option(
    "--facts",
    is_flag=True,
    help="Print what sm knows about this agent CLI, in the form of a data file, and exit.",
)
@json_option
def command(
    name: str, program: str | None, contracts: Sequence[str], patient: bool, facts: bool, call: Call
) -> int:
    if facts:
        text = check_of(name).facts
        call.show_value(tomllib.loads(text), lambda _: text.splitlines())
        return 0
    if call.instance.session_id is not None:
        raise NotPermitted("only the operator may check a program")
    from sm.providers.checks import locate

    names = _chosen(check_of(name), contracts)
    if program is not None and "/" in program:
        program = os.path.join(current_directory(), os.path.expanduser(program))
    program = program or started_program(call.instance, name)
    if program is None:
        raise UsageError(f"your configuration starts no program of {name}", "name one with --program PATH")
    record = run_check(call, name, locate(program, os.environ.get("PATH")), names, patient=patient)
    call.show_value(asdict(record), lambda _: [])
    return ExternalError.exit_code if record.broken else 0


def run_check(
    call: Call, provider: str, path: str, names: Sequence[str] = (), *, patient: bool = False
) -> "CheckRecord":
    """Try contracts with a program, show each outcome unless the command prints JSON, and return the outcomes.

    `names`: the contracts, in order, or empty for all. Only the outcomes of all contracts are kept. Raises
    ExternalError if the program does not say its version, or is too old, and ConfigError.
    """
    from sm.config import load
    from sm.providers.checks import CheckRecord, CheckRecords, identify, is_older

    check, own, found = check_of(provider), load(call.instance.paths.config).config, identify(path)
    everything = [contract.name for contract in check.contracts]
    if is_older(found.version, check.oldest):
        oldest = ".".join(map(str, check.oldest))
        raise ExternalError(
            f"{provider} {found.version} at {line(path, 4096)} is too old: sm needs {oldest} or newer",
            f"{provider} update",
        )
    names = names or everything
    began, at = time.monotonic(), now().isoformat(timespec="seconds")
    if not call.as_json:
        click.echo(
            f"Checking {provider} {found.version} at {line(found.path, 4096)}: {plural(len(names), 'contract')}"
        )
    outcomes = {}
    within_s = _PATIENT_TIMEOUT_S if patient else _TIMEOUT_S
    with _stage(check, found.path, own, within_s) as stage, measured(stage.client) as cost:
        for outcome in _outcomes(check, stage, names, patient=patient):
            outcomes[outcome.name] = outcome
            if not call.as_json:
                click.echo(_line(outcome))
    for path in stage.ran - {found.path}:  # a script had started the agent CLI
        found = identify(path)
    in_order, seconds = tuple(outcomes[name] for name in names), round(time.monotonic() - began, 1)
    record = CheckRecord(found, at, seconds, in_order, cost.processor_s, cost.memory_bytes)
    if list(names) == everything:
        CheckRecords(call.instance.paths.checks).save(provider, record)
    if not call.as_json:
        click.echo(_summary(record))
    return record


def _chosen(check: "ProgramCheck", contracts: Sequence[str]) -> list[str]:
    names = [contract.name for contract in check.contracts]
    if unknown := [name for name in contracts if name not in names]:
        raise UsageError(f"no such contract: {unknown[0]}", f"one of: {', '.join(names)}")
    return [name for name in names if not contracts or name in contracts]


@contextmanager
def _stage(check: "ProgramCheck", program: str, own: "Config", within_s: int) -> "Iterator[CheckStage]":
    """Start a private instance whose agents run this program. The check must end within this time."""
    from sm.providers.checks import CheckStage

    def configure(instance: Instance, socket_name: str) -> Mapping[str, object]:
        size = {"width": 120, "height": 40}
        return {**check.configuration(program, own), "tmux": {"socket_name": socket_name, **size}}

    with private_instance("check", within_s, configure) as instance:
        start_undisturbed(instance)
        yield CheckStage(instance.client(start=False), os.path.dirname(instance.paths.home))


def _outcomes(
    check: "ProgramCheck", stage: "CheckStage", names: Sequence[str], *, patient: bool
) -> "Iterator[Outcome]":
    """Yield the outcome of each contract, and with `patient` another one of each that is broken at first."""
    broken = []
    for outcome in check.run(stage, names):
        if not outcome.holds:
            broken.append(outcome.name)
        yield outcome
    if patient and broken:
        yield from check.run(stage, broken, patience=_PATIENCE)


def _line(outcome: "Outcome") -> str:
    result = "ok" if outcome.holds else "broken"
    shown = f"{result:<7} {outcome.name}: {outcome.sentence} ({line(outcome.evidence, 400)}; {outcome.seconds:.1f} s)"
    return f"{shown}\n        {outcome.instead}" if outcome.instead else shown


def _summary(record: "CheckRecord") -> str:
    held, count = len(record.outcomes) - len(record.broken), plural(len(record.outcomes), "contract")
    cost = [f"{record.seconds:.0f} s"]
    if record.processor_s is not None and record.memory_bytes is not None:
        cost += [f"{record.processor_s:.0f} s of processor time", f"{size(record.memory_bytes)} of memory"]
    return f"{held} of {count} {'holds' if held == 1 else 'hold'} ({', '.join(cost)})"
