"""A made-up agent CLI and a made-up engine, each with one line in its registry, in the played daemon."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sm.cli.instance import Instance as PlayedInstance
from sm.cli.mcp.check import PumpTimes
from sm.cli.setup_questions import find_setups
from sm.sandboxes.docker.build import build_arguments, dockerfile_text
from sm.sandboxes.images import BuildRequest, agents_of
from tests.registered.lines import register
from tests.sim.hook import start_hook
from tests.sim.programs import Running
from tests.sim.stage import Instance, stand_in

CONFIG = """
default_trust: direct
limits: {spawn_interval_s: 0}
sandbox: {engine: "toybox:main"}
commands:
  Sleeper: {command: [sleep, "1000"], prompt: file}
"""


class ToyInstance(Instance):
    def __init__(self) -> None:
        super().__init__(config=CONFIG)
        self.argv: list[tuple[str, ...]] = []
        self.world.programs.installed["toy"] = self._play
        self.start_daemon()

    async def _play(self, program: Running) -> None:
        self.argv.append(program.argv)
        await stand_in(program)

    def hook(self, session_id: str, **event: object) -> None:
        """Run `sm hook toy` as a child of the agent."""
        read, write = os.pipe()
        os.write(write, json.dumps(event).encode())
        os.close(write)
        files = {0: read, 1: os.memfd_create("output")}
        environ = dict(self.world.programs.running[session_id].environ)
        started = start_hook(self.command, "toy", environ, Path("/"), files)
        assert started.wait(60) == 0
        for fd in files.values():
            os.close(fd)


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyInstance]:
    register(monkeypatch)
    monkeypatch.setattr("sm.cli.mcp.check.measure", lambda _: PumpTimes(100, 10))  # of a real process
    with ToyInstance() as instance:
        yield instance


def facts(session: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(session[name]) for name in ("status", "provider", "effective_mode"))


def test_agent_of_a_registered_provider_reports_with_its_hooks_and_is_restored(instance: ToyInstance) -> None:
    before = instance.spawn("Toy", "play with me")
    session_id = before["session_id"]
    assert before["tmux_session"] == f"toy-{session_id}"
    instance.hook(session_id, happened="woke", talk=f"talk-{session_id}")
    instance.hook(session_id, happened="hears")
    assert facts(instance.in_status(session_id, "running")) == ("running", "toy", "direct")
    instance.hook(session_id, happened="done", said="I have played with you.")
    assert instance.in_status(session_id, "idle")["status_source"] == "hook"
    instance.sm("kill", session_id)
    instance.sm("restore", session_id)
    instance.in_status(session_id, "starting")
    talk = f"talk-{session_id}"
    assert [argv[1:] for argv in instance.argv] == [("--talk", talk, "play with me"), ("--again", talk)]


def test_registered_provider_is_in_lists_and_in_the_doctor(instance: ToyInstance) -> None:
    listed = {agent["name"]: agent["provider"] for agent in instance.json("agents")["agents"]}
    assert listed["Toy"] == "toy"
    assert "ok       toy is wound up" in instance.run("doctor").stdout


def test_trust_is_given_to_the_agents_of_every_installed_provider(instance: ToyInstance) -> None:
    work = str(instance.work)
    assert instance.sm("trust", work, "--bypass").splitlines() == [  # claude is not installed
        f"agents of claude may now bypass permissions (in {instance.home}/.claude/settings.json)",
        "agents of toy may now bypass permissions (in /toys/trusted)",
        f"toy trusts {work} and all directories below it (written to /toys/trusted)",
    ]
    found = find_setups(PlayedInstance(instance.env), "Toy")
    assert list(found) == ["toy"]
    assert list(find_setups(PlayedInstance(instance.env), "no such type")) == ["claude"]


def test_agents_of_any_provider_run_and_are_restored_in_a_registered_engine(instance: ToyInstance) -> None:
    instance.sm("workspace", "create", "shop", "--working-dir", str(instance.work))
    place = ("--workspace", "shop", "--trust", "sandboxed")
    for kind in ("Toy", "Sleeper"):
        done = instance.run("spawn", kind, "x", *place, "--json")
        assert "in a toybox" in done.stderr
        session = json.loads(done.stdout)
        session_id = session["session_id"]
        assert session["effective_mode"] == "sandboxed"
        instance.sm("kill", session_id, "--force")
        instance.sm("restore", session_id)
        now = instance.session(session_id)
        assert now["effective_mode"] == "sandboxed"
        assert now["pid"] not in (None, session["pid"])


def test_registered_engine_is_shown_and_entered(instance: ToyInstance) -> None:
    instance.sm("workspace", "create", "shop", "--working-dir", str(instance.work))
    enter = "/v1/sandbox/containers/shop/enter"
    ((_, answer),) = instance.request_as(None, ("POST", enter, None, {"login": "toy"}))
    argv = answer["argv"]
    assert argv[:3] == ["toybox", "box-shop", "/home/sandbox"]
    assert "TOY_IN_A_BOX=1" in argv
    assert argv[-3:] == ["--", "toy", "login"]
    status = instance.sm("sandbox", "status")
    assert "Toybox 1.0 at toybox:main" in status
    assert "box-shop" in status
    assert "sandboxes: Toybox 1.0 at toybox:main" in instance.run("doctor").stdout


def test_image_has_a_stage_for_each_registered_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    assert agents_of(["node", "toy"]) == ("toy@7.0", "node")
    request = BuildRequest(agents_of(["toy"]), no_cache=False, pull=False, arguments={})
    assert build_arguments(request, 1, 1)["TOY"] == "7.0"
    text = dockerfile_text()
    assert 'fetch @toys/toy "$TOY"' in text
    assert "COPY --from=toy /out/ /" in text
