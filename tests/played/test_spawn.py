"""Spawns: refused ones, names, prompts, and the environment that played programs get."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sm.core.statuses import Status
from sm.sessions.starts import AgentStarts
from sm.store import Effect
from tests.fixtures import context_fixture
from tests.sim.programs import Running
from tests.sim.stage import Instance, until

instance = context_fixture("function", Instance)


async def shows_environment(program: Running) -> None:
    """Write the variables to a file of the session's name."""
    lines = (f"{name}={value}\n" for name, value in program.environ.items())
    Path(program.process.cwd, f"{program.session_id}.txt").write_text("".join(lines))
    await asyncio.sleep(100_000)


def environment_of(instance: Instance, session_id: str) -> set[str]:
    path = instance.work / f"{session_id}.txt"
    until(path.exists, "the agent wrote its environment")
    lines = set(path.read_text().splitlines())
    path.unlink()
    return lines


def test_spawn_names_the_process_of_an_agent_that_reports_before_it_is_recorded(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_at_once = AgentStarts.record_start

    async def record_late(starts: AgentStarts, effect: Effect, *facts: Any, **more: Any) -> None:
        sessions = starts._store.sessions
        await starts._store.wait_until(lambda: sessions[effect.session_id].status is Status.COMPLETED)
        await asyncio.sleep(1)
        await record_at_once(starts, effect, *facts, **more)

    monkeypatch.setattr(AgentStarts, "record_start", record_late)
    session = instance.spawn("Sh", "sm complete done; exec sleep 1000")
    assert session["status"] == "completed"
    assert instance.lives(session["pid"])


def test_configured_environment_cannot_override_sm_variables() -> None:
    with Instance(
        '  Liar: {command: [shows-environment], env: {SM_SESSION_ID: "ffffffff", SM_TRUST_LEVEL: "root", MINE: "yes"}}'
    ) as instance:
        instance.world.programs.installed["shows-environment"] = shows_environment
        session_id = instance.spawn("Liar")["session_id"]
        lines = environment_of(instance, session_id)
        assert f"SM_SESSION_ID={session_id}" in lines
        assert "SM_TRUST_LEVEL=direct" in lines
        assert "MINE=yes" in lines


def test_env_option_overrides_the_configuration_and_reaches_restored_agents_and_children() -> None:
    types = "  Env: {command: [shows-environment], prompt: file, env: {MINE: config}}"
    with Instance(types) as instance:
        instance.world.programs.installed["shows-environment"] = shows_environment
        options = ["--env", "MINE=a=b", "--env", "FROM_SHELL", "--env", "EMPTY="]
        parent = instance.spawn("Env", *options, env={"FROM_SHELL": "here"})["session_id"]
        expected = {"MINE=a=b", "FROM_SHELL=here", "EMPTY="}
        assert expected <= environment_of(instance, parent)
        instance.sm("kill", parent)
        instance.sm("restore", parent)
        assert expected <= environment_of(instance, parent)
        child = instance.spawn("Env", "--parent", parent)["session_id"]
        assert {"MINE=config", "FROM_SHELL=here"} <= environment_of(instance, child)
        for variable, problem in (
            ("SM_TRUST_LEVEL=root", "reserved"),
            ("1X=2", "not a valid variable name"),
            (f"X={'y' * 100_001}", "more than 100,000 bytes"),
        ):
            assert problem in instance.refused("spawn", "Env", "--env", variable, exit_code=2)


def test_agent_type_is_found_whatever_the_case_of_its_name(instance: Instance) -> None:
    session = instance.spawn("sLEEPER", "--name", "x")
    assert (session["agent_type"], session["friendly_name"]) == ("Sleeper", "sleeper-x")


def test_prompt_is_read_from_standard_input(instance: Instance) -> None:
    instance.spawn("Sh", "-", stdin="echo 42 > answer.txt; sleep 1000\n")
    answer = instance.work / "answer.txt"
    until(lambda: answer.exists() and answer.read_text() == "42\n", "the prompt ran")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "problem"),
    [
        (["Reviwer", "x"], 2, "unknown agent type"),
        (["sleper", "x"], 2, "did you mean Sleeper?"),
        (["Sh", "x" * 10_001], 2, "10,001 characters, at most 10,000"),
        (["Sh", "a\x1b[201~b"], 2, "U+001B at position 2"),
        (["Sh", "x", "--working-dir", "/no/such/place"], 2, "does not exist"),
        (["Sh", "x", "--working-dir", "/etc/passwd"], 2, "is not a directory"),
        (["Sh", "x", "--name", "Not a name!"], 2, "invalid name"),
        (["Sh", "x", "--parent", "ffffffff"], 3, "no such session"),
        (["Sh", "x", "--trust", "root"], 2, "unknown trust level"),
        (["Sh", "x", "--model", "opus"], 2, "--model is not supported"),
        (["Sh", "x", "--preset", "fast"], 2, "--preset is not supported"),
        (["Sh", "x", "--mode", "fast"], 2, "--mode"),
    ],
)
def test_invalid_spawn_is_refused_and_leaves_no_session(
    instance: Instance, arguments: list[str], exit_code: int, problem: str
) -> None:
    assert problem in instance.refused("spawn", *arguments, exit_code=exit_code)
    assert instance.json("all") == []


def test_friendly_name_is_lower_case_prefixed_once_and_unique_among_live_sessions(instance: Instance) -> None:
    first = instance.spawn("Sleeper", "x", "--name", "Sleeper-Task1")
    assert first["friendly_name"] == "sleeper-task1"
    assert "name sleeper-task1 is already used" in instance.refused(
        "spawn", "Sleeper", "x", "--name", "task1", exit_code=2
    )
    instance.sm("kill", "sleeper-task1", "--force")
    again = instance.spawn("Sleeper", "x", "--name", "task1")
    assert instance.session("sleeper-task1")["session_id"] == again["session_id"]


def test_program_that_exits_immediately_has_an_exit_code_and_last_output(instance: Instance) -> None:
    for code, status in ((0, "completed"), (7, "error")):
        spawned = instance.run("spawn", "Sh", f"echo last words; exit {code}", "--json")
        assert spawned.returncode == 0
        session = instance.ended(json.loads(spawned.stdout)["session_id"])
        assert (session["status"], session["exit_code"], session["exit_signal"]) == (status, code, None)
        assert "last words" in session["last_output"]
        types = [e["type"] for e in instance.events(session["session_id"])]
        assert types == ["spawned", "started", status]
    shown = instance.run("status", session["session_id"]).stdout
    assert "7" in shown
    assert "last words" in shown


def test_spawn_warns_and_runs_directly_when_sandboxed_is_only_the_default(instance: Instance) -> None:
    instance.config.write_text(instance.config.read_text().replace("default_trust: direct", ""))
    spawned = instance.run("spawn", "Sleeper", "--json")
    session = json.loads(spawned.stdout)
    assert (session["trust_level"], session["effective_mode"]) == ("sandboxed", "direct")
    assert "no sandbox" in spawned.stderr
    assert "warning" in [e["type"] for e in instance.events()]
    refusal = instance.run_inside(session["session_id"], "spawn", "Sleeper", "--trust", "sandboxed")
    assert refusal.returncode != 0
    assert "no Docker engine runs" in refusal.stderr
    assert len(instance.json("all")) == 1


def test_idempotency_key_makes_one_session(instance: Instance) -> None:
    instance.sm("status")

    def post(body: dict[str, object], key: str) -> tuple[int, dict[str, Any]]:
        answer = instance.post_as(None, "/v1/sessions", body, key)
        return answer.status, json.loads(answer.body)

    body: dict[str, object] = {
        "agent_type": "Sleeper",
        "cwd": str(instance.work),
        "environment": {"PATH": "/bin:/usr/bin"},
    }
    status, first = post(body, "k1")
    assert status == 200
    assert post(body, "k1")[1]["session_id"] == first["session_id"]
    assert post(body, "k2")[1]["session_id"] != first["session_id"]
    status, refusal = post({**body, "prompt": "other"}, "k1")
    assert (status, refusal["error"]["code"]) == (400, "usage")
    assert len(instance.json("all")) == 2


def test_spawn_refuses_a_name_and_a_directory_that_are_not_utf_8(instance: Instance) -> None:
    bad = os.fsdecode(b"caf\xe9")
    directory = os.fsencode(instance.work) + b"/caf\xe9"
    os.mkdir(directory)
    before = instance.json("all")
    for option, value in (("--name", bad), ("--working-dir", os.fsdecode(directory))):
        error = instance.refused("spawn", "Sleeper", option, value, exit_code=2)
        assert "caf\\xe9 is not valid UTF-8" in error
        assert option.removeprefix("--").replace("-", " ") in error
    assert instance.json("all") == before
