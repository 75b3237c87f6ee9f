"""Run a demo: a small team of agents at work.

The agents are small programs in real terminals: one delegates, one fails and one crashes. The demo uses its own
directory, daemon and tmux server, and removes them at the end and after Ctrl-C. It needs no account and costs
nothing.

With --stay, the sessions stay until Ctrl-C, so that you can look at them with every command, such as sm top. One more
agent then asks you a question, and reads your messages.

With --sandboxed, the agents run in a container that the demo removes too. This needs Docker and the image of sm sandbox
build, with or without agents; the engine, the image and the runtime are those of your configuration.

\b
Examples:
  sm demo
  sm demo --stay
  sm demo --sandboxed
"""

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress

import click

from sm.cli.commands import demo_agent
from sm.cli.display.output import now, print_table
from sm.cli.display.sessions import session_table, tree_rows
from sm.cli.instance import Instance
from sm.cli.options import current_directory
from sm.cli.outage import follow
from sm.cli.private_instance import leave_session, private_instance, start_undisturbed
from sm.client.http import Client, session_path
from sm.core.lines import JsonObject, event_line, line
from sm.core.session_lines import label
from sm.core.states import TrustLevel
from sm.core.statuses import ENDED, Status
from sm.errors import ExternalError
from sm.linux.process_limits import soft_limits
from sm.paths import INSIDE_VAULT
from sm.wire import decode

_TIMEOUT_S = 120
_PACE_S = 2.0
_FAST_PACE_S = 0.1
_TASK = "Ship the login page"
_PROGRAM = "agent.py"
_STAYING = "Reviewer"
"""The agent type that only a demo with --stay starts."""

EXPECTED = {
    "Coordinator": (Status.COMPLETED, None),
    "Builder": (Status.COMPLETED, "Coordinator"),
    "Linter": (Status.COMPLETED, "Builder"),
    "Tester": (Status.ERROR, "Coordinator"),
    "Fetcher": (Status.ERROR, "Coordinator"),
}
"""Agent type: (expected status, expected parent)."""


@click.command(help=__doc__)
@click.option("--fast", is_flag=True, help="Skip the pauses in which the agents pretend to work.")
@click.option("--stay", is_flag=True, help="Keep the sessions until you press Ctrl-C.")
@click.option("--sandboxed", is_flag=True, help="Run the agents in a container.")
def command(fast: bool, stay: bool, sandboxed: bool) -> None:
    leave_session()
    sandbox = _sandbox() if sandboxed else None
    with _instance(_FAST_PACE_S if fast else _PACE_S, sandbox) as instance:
        click.echo(f"Starting a daemon and a tmux server in {instance.paths.state}")
        start_undisturbed(instance)
        if stay:
            click.echo(
                f"To use this instance in another terminal:\n  export SM_HOME={instance.paths.home}\n  sm top\n"
            )
        sessions = _run_agents(instance.client(start=False), _vault(instance) if sandboxed else None)
        _report(sessions)
        if stay:
            _start_reviewer(instance.client(start=False), _vault(instance) if sandboxed else None)
            _wait_for_interrupt()
    remains = "process, container, tmux server" if sandboxed else "process, tmux server"
    click.echo(
        f"\nThe demo is cleaned up: it left no {remains} or file. To start your own agents: sm spawn --help"
    )
    trouble = find_differences(sessions)
    if trouble:
        raise ExternalError("the demo failed: " + "; ".join(trouble), "sm doctor")


def _wait_for_interrupt() -> None:
    signal.alarm(0)
    with suppress(KeyboardInterrupt):
        click.echo("\nThe sessions stay until you press Ctrl-C")
        while True:
            signal.pause()


def _spawn(client: Client, agent_type: str, task: str, vault: str | None, **more: str) -> JsonObject:
    """`vault`: the vault of the container for sandboxed agents, or None if the agents run on this machine."""
    place: dict[str, object]
    if vault is None:
        place = {"trust": TrustLevel.DIRECT, "cwd": current_directory()}
    else:
        # The trust level is asked for, so a missing engine or image is an error and no reason to run on this machine.
        place = {"trust": TrustLevel.SANDBOXED, "working_dir": vault}
    request = {
        "agent_type": agent_type,
        "prompt": task,
        "environment": dict(os.environ),
        "process_limits": soft_limits(),
    }
    session: JsonObject = client.post("/v1/sessions", request | place | more, timeout_s=_TIMEOUT_S)
    return session


def _start_reviewer(client: Client, vault: str | None) -> None:
    session = _spawn(client, _STAYING, "Review the login page", vault, name="login")
    click.echo(f"\n{label(session)} has a question for you: sm requests")


def _run_agents(client: Client, vault: str | None) -> list[JsonObject]:
    if vault is not None:
        click.echo("Making a container for the agents")
    first = _spawn(client, "Coordinator", _TASK, vault)
    argv = client.get(session_path(first["session_id"], "/attach"))["argv"]
    click.echo(f"To watch the coordinator, run in another terminal:\n  {shlex.join(argv)}\n")
    for text in follow(client, {}, 0):
        event = decode(text)
        click.echo(event_line(event, now()))
        if event["session_id"] == first["session_id"] and event["type"] in ENDED:
            break
    sessions: list[JsonObject] = client.get("/v1/sessions")
    return sessions


def _report(sessions: Sequence[JsonObject]) -> None:
    click.echo()
    print_table(session_table(tree_rows(sessions), now(), "no sessions"))
    click.echo("\nWhat happened:")
    for session in sessions:
        click.echo(f"  {label(session)} {_ending(session)}")


def _ending(session: JsonObject) -> str:
    if session["status"] == Status.COMPLETED:
        return "completed its task"
    if session["status_source"] == "report":
        return f"reported: {line(session['completion_message'])}"
    end = "crashed" if session["status"] == "error" else line(session["status"])
    return f"{end}: {line(session['status_reason'])}"


def find_differences(sessions: Sequence[JsonObject]) -> list[str]:
    """Describe each difference from EXPECTED."""
    types = {session["session_id"]: session["agent_type"] for session in sessions}
    results = {s["agent_type"]: (s["status"], types.get(s["parent_session_id"])) for s in sessions}
    trouble = [f"there is no {kind}" for kind in EXPECTED if kind not in results]
    for kind, (status, parent) in results.items():
        expected = EXPECTED.get(kind)
        if (status, parent) != expected:
            trouble.append(f"{kind} is {status}, child of {parent}; expected: {expected}")
    crashed = [s["exit_code"] for s in sessions if s["agent_type"] == "Fetcher"]
    if crashed != [1]:
        trouble.append(f"the Fetcher's exit code is {crashed}; expected: 1")
    return trouble


def _sandbox() -> dict[str, object]:
    """The section `sandbox` for the demo: the user's engine, and no network. Raises ConfigError."""
    from sm.config import load

    own = load(Instance(os.environ).paths.config).config.sandbox
    return {"engine": own.engine, "image": own.image, "runtime": own.runtime, "network": "none"}


def _instance(pace_s: float, sandbox: Mapping[str, object] | None) -> AbstractContextManager[Instance]:
    """Create an instance for the time of a block.

    `sandbox`: the section of its configuration for sandboxed agents, or None if the agents run on this machine.
    """

    def configure(instance: Instance, socket_name: str) -> Mapping[str, object]:
        document = configuration(socket_name, pace_s, sandboxed=sandbox is not None)
        if sandbox is not None:
            document["sandbox"] = {**sandbox, "vault": _vault(instance)}
            _write_program(_vault(instance))
        return document

    return private_instance("demo", _TIMEOUT_S, configure)


def _vault(instance: Instance) -> str:
    return f"{os.path.dirname(instance.paths.home)}/agents"


def _write_program(vault: str) -> None:
    """Copy the agents' program into the vault, because a container has its own Python without this package.

    A vault and not a workspace: the agents cannot change the program, and the files may belong to root.
    """
    os.mkdir(vault)
    program = shutil.copyfile(demo_agent.__file__, f"{vault}/{_PROGRAM}")
    os.chmod(vault, 0o755)  # noqa: S103  the user of the container reads the files as any other user does
    os.chmod(program, 0o644)


def configuration(socket_name: str, pace_s: float, *, sandboxed: bool = False) -> dict[str, object]:
    """The configuration of the demo's instance, without its section `sandbox`.

    `pace_s`: how long one step of an agent takes.
    """
    direct, contained = [sys.executable, "-m", demo_agent.__name__], ["python3", f"{INSIDE_VAULT}/{_PROGRAM}"]
    run = contained if sandboxed else direct
    return {
        "default_trust": TrustLevel.DIRECT,
        "tmux": {"socket_name": socket_name},
        "commands": {
            kind: {"command": [*run, kind.lower(), "--pace", str(pace_s)], "prompt": "argv"}
            for kind in (*EXPECTED, _STAYING)
        },
    }
