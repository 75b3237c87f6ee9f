"""The version of agents' programs, the outcome of its check, and an update in the middle of ten sessions."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from sm import __version__
from sm.linux.programs import ProgramResult
from sm.paths import InstancePaths
from sm.providers.checks import CheckRecords
from tests.fixtures import context_fixture
from tests.played.notified_instance import inputs, keep
from tests.played_agent import CONFIG, Agent
from tests.providers.test_checks import checked
from tests.sim.blocking import drive
from tests.sim.engine import IMAGE
from tests.sim.outside import played_programs
from tests.sim.sandbox_stage import SandboxInstance, open_instance
from tests.sim.stage import Stage, stand_in, until

NOT_CHECKED = "claude 2.1.331: not checked"
BROKEN = "claude 2.1.331: checked on 2026-11-29, 1 of 2 contracts does not hold: plan"

TOLD = "claude 2.1.331: 1 of 2 contracts holds; plans must be approved at the terminal (sm check claude)"


async def answer(argv: Sequence[str], *_: Any, **__: Any) -> ProgramResult:
    """Answer as a claude whose file ends with its version."""
    said = Path(argv[0]).read_text().split()[-1] if argv[1] == "--version" else ""
    return ProgramResult(0, said.encode(), b"")


class ProgramStage(Stage):
    """A claude of which a link on the PATH names one version, as its installer makes it."""

    def __init__(self) -> None:
        super().__init__()
        drive(self.loop, self.world.daemon.stop())
        self.versions = self.home / "claude" / "versions"
        self.versions.mkdir(parents=True)
        self.link = self.home / "bin" / "claude"
        self.link.parent.mkdir()
        self.install("2.1.331")
        self.config.write_text(CONFIG.format(claude=self.link))
        self.world.programs.installed["claude"] = stand_in
        self.enter(mock.patch("sm.providers.claude.program_help.run_program", answer))
        self.start_daemon()

    def install(self, version: str) -> None:
        program = self.versions / version
        program.write_text(f"a program that is {version}")
        program.chmod(0o755)
        new = self.link.with_name("new")
        new.symlink_to(program)
        new.rename(self.link)

    def check(self, version: str) -> None:
        """Keep the outcome of a check in which one of two contracts was broken."""
        CheckRecords(str(self.state / "checks")).save("claude", checked(self.versions / version, version))

    def plain(self, *arguments: str) -> dict[str, Any]:
        spawned: dict[str, Any] = self.json("spawn", "Plain", "--skip-checks", *arguments)
        return spawned

    def heads(self) -> tuple[str, list[str]]:
        """The first line of `sm ls`, and the programs in `sm status`."""
        shown = [line for line in self.sm("status").splitlines() if line.startswith("Program:")]
        return self.sm("ls").partition("\n")[0], [line.split(maxsplit=1)[1] for line in shown]


stage = context_fixture("function", ProgramStage)


def test_program_that_was_not_checked_is_named_by_spawn_ls_status_and_why(stage: ProgramStage) -> None:
    lines = stage.sm("spawn", "Plain", "--skip-checks", "--name", "one").splitlines()
    until(lambda: stage.heads()[1], "the program is looked up")
    assert stage.heads() == (f"{NOT_CHECKED} (sm check claude)", [NOT_CHECKED])
    assert lines[-1] == f"Program: {NOT_CHECKED}"
    assert f"  {NOT_CHECKED}" in stage.sm("why", "plain-one").splitlines()
    assert stage.json("status", "plain-one")["program_version"] == "2.1.331"
    assert stage.json("ls")[0]["program_version"] == "2.1.331"


def test_outcome_of_a_check_is_in_the_answer_of_a_spawn(stage: ProgramStage) -> None:
    stage.check("2.1.331")
    until(lambda: stage.plain()["program"]["checked_at"], "the program is looked up")
    program = stage.plain()["program"]
    assert program == {
        "version": "2.1.331",
        "checked_at": "2026-11-29T09:00:00+00:00",
        "broken": ["plan"],
        "line": BROKEN,
    }
    assert stage.heads() == (f"{BROKEN} (sm check claude)", [BROKEN])


def test_outcome_of_a_check_by_a_person_ends_the_line_in_the_list(stage: ProgramStage) -> None:
    stage.plain("--name", "one")
    until(lambda: stage.heads()[0].startswith(NOT_CHECKED), "the program is looked up")
    record = checked(stage.versions / "2.1.331", "2.1.331")
    CheckRecords(str(stage.state / "checks")).save("claude", replace(record, outcomes=record.outcomes[1:]))
    until(lambda: stage.heads()[1] == ["claude 2.1.331: checked on 2026-11-29"], "the daemon knows it")
    assert stage.heads()[0].startswith("NAME ")


def test_sessions_are_told_nothing_of_the_program(stage: ProgramStage) -> None:
    agent = stage.as_session(stage.plain()["session_id"])
    until(lambda: stage.json("status")["programs"], "the program is looked up")
    assert stage.json("status", env=agent)["programs"] == []
    assert NOT_CHECKED not in stage.sm("ls", env=agent)


def test_update_changes_the_version_of_no_session_and_restarts_none(stage: ProgramStage) -> None:
    before = [stage.plain("--name", f"a{number}") for number in range(10)]
    stage.install("2.1.332")
    until(lambda: stage.json("status")["programs"][-1].startswith("10 agents"), "the update is seen")
    new = stage.plain("--name", "new")
    assert new["program_version"] == "2.1.332"
    after = {s["session_id"]: s for s in stage.json("ls")}
    for session in before:
        now = after[session["session_id"]]
        assert (now["program_version"], now["pid"]) == ("2.1.331", session["pid"])
    replaced = "10 agents run claude 2.1.331; new agents start 2.1.332"
    assert replaced in stage.sm("ls").splitlines()
    fact = "its claude 2.1.331 was replaced since its start; new agents start 2.1.332"
    assert f"  {fact}" in stage.sm("why", "plain-a3").splitlines()
    stage.restart_daemon()
    until(lambda: replaced in stage.json("status")["programs"], "the new daemon knows it")


def test_restored_session_has_the_version_of_its_new_process(stage: ProgramStage) -> None:
    session = stage.plain("--name", "one")
    stage.sm("kill", "plain-one")
    stage.install("2.1.332")
    stage.run("restore", session["session_id"])
    until(
        lambda: stage.session(session["session_id"])["program_version"] == "2.1.332",
        "the new version is stored",
    )


def announcements(stage: ProgramStage) -> list[str]:
    return [message["text"] for message in stage.json("inbox") if "contract" in message["text"]]


def test_operator_is_told_once_of_broken_contracts(stage: ProgramStage) -> None:
    stage.check("2.1.331")
    for name in ("one", "two"):
        stage.plain("--name", name)
    until(lambda: announcements(stage), "the operator is told")
    stage.restart_daemon()
    stage.plain("--name", "three")
    until(lambda: stage.json("status")["programs"], "the program is looked up")
    assert announcements(stage) == [TOLD]
    stage.install("2.1.332")
    stage.check("2.1.332")
    until(lambda: len(announcements(stage)) == 2, "the next version is told")


def test_broken_contracts_are_sent_to_the_command_of_the_operator() -> None:
    with ProgramStage() as stage:
        stage.enter(played_programs(stage.world.kernel, {"tell": keep}))
        stage.config.write_text(f"{stage.config.read_text()}\nnotify: {{command: [tell, {stage.home}]}}\n")
        stage.restart_daemon()
        stage.check("2.1.331")
        stage.plain()
        sent = until(lambda: [told for told in inputs(stage) if told["type"] == "program"], "it is sent")
        assert sent[0]["text"] == TOLD
        assert sent[0]["occasion"].startswith("program/claude/")


def test_plan_is_answered_at_the_terminal_while_its_contract_is_broken(stage: ProgramStage) -> None:
    stage.check("2.1.331")
    agent = Agent(stage, stage.plain("--name", "one")["session_id"])
    until(lambda: stage.json("status")["programs"], "the program is looked up")
    agent.send_event("UserPromptSubmit", prompt="plan it")
    agent.open_dialog("ExitPlanMode", {"plan": "1. do it"}).start_wait()
    (request,) = until(lambda: stage.json("requests"), "the agent asks")
    shown = stage.sm("requests", request["request_id"])
    why = "claude 2.1.331 may not carry out an answer given through sm; answer it at its terminal"
    assert f"Because:   {why}" in shown.splitlines()
    assert "Answer:    sm attach plain-one" in shown.splitlines()
    told = f"{why}: sm attach {agent.id}"
    until(lambda: [m for m in stage.json("inbox") if told in m["text"]], "the notice says so")
    agent.end()


def test_permission_is_answered_as_ever_while_another_contract_is_broken(stage: ProgramStage) -> None:
    stage.check("2.1.331")
    agent = Agent(stage, stage.plain("--name", "one")["session_id"])
    until(lambda: stage.json("status")["programs"], "the program is looked up")
    agent.send_event("UserPromptSubmit", prompt="make it")
    agent.open_dialog("Bash", {"command": "make"}).start_wait()
    (request,) = until(lambda: stage.json("requests"), "the agent asks")
    assert request["reason"] is None
    agent.end()


def open_with_claude(agents: str) -> SandboxInstance:
    """Open an instance whose image has claude. `agents`: as the label of an image of sm names them."""
    instance = open_instance()
    instance.world.programs.installed["claude"] = stand_in
    image = instance.engine.images[IMAGE]
    labels = {"app": "sm", "type": "image", "version": __version__, "agents": agents}
    instance.engine.images[IMAGE] = replace(image, programs=(*image.programs, "claude"), labels=labels)
    return instance


def write_turn(instance: SandboxInstance, session_id: str, version: str) -> None:
    """Write a first turn into the transcript of a session in the container of `shop`, as this version does."""
    argv = instance.world.programs.running[session_id].process.argv
    conversation = argv[argv.index("--session-id") + 1]
    home = Path(InstancePaths(str(instance.config), str(instance.state)).sandbox("shop").home)
    project = home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(instance.work))
    project.mkdir(parents=True)
    messages: dict[str, object] = {"user": "work", "assistant": [{"type": "text", "text": "done"}]}
    at = instance.now().isoformat().replace("+00:00", "Z")
    lines = [
        {"type": role, "timestamp": at, "version": version, "message": {"role": role, "content": content}}
        for role, content in messages.items()
    ]
    transcript = project / f"{conversation}.jsonl"
    transcript.write_text("".join(json.dumps(line) + "\n" for line in lines))


def records_no_prompt(instance: SandboxInstance, session_id: str) -> bool:
    """Return whether claude renders its system prompt anew for each process, and keeps none with its conversation."""
    argv = instance.world.programs.running[session_id].process.argv
    return ("--system-prompt-snapshot", "off") in pairwise(argv)


@pytest.mark.parametrize(("agents", "version"), [("claude@2.1.197 node", "2.1.197"), ("claude", None)])
def test_session_in_a_container_has_the_version_of_its_image(agents: str, version: str | None) -> None:
    with open_with_claude(agents) as instance:
        session = instance.spawn("general-purpose", "--workspace", "shop", "--skip-checks")
        assert (session["effective_mode"], session["program_version"]) == ("sandboxed", version)
        assert "program" not in session


@pytest.mark.parametrize(("agents", "records"), [("claude@2.1.197", True), ("claude@2.1.332", False)])
def test_claude_in_a_container_records_no_system_prompt_if_the_version_of_its_image_can(
    agents: str, records: bool
) -> None:
    with open_with_claude(agents) as instance:
        session = instance.spawn("general-purpose", "--workspace", "shop", "--skip-checks")
        assert records_no_prompt(instance, session["session_id"]) is not records


@pytest.mark.parametrize(("version", "records"), [("2.1.197", True), ("2.1.332", False)])
def test_fork_and_restore_in_a_container_use_the_options_of_the_version_that_wrote_the_conversation(
    version: str, records: bool
) -> None:
    with open_with_claude("claude") as instance:
        id = instance.spawn("general-purpose", "work", "--workspace", "shop", "--skip-checks")["session_id"]
        assert not records_no_prompt(instance, id)  # no one knows the version yet
        write_turn(instance, id, version)
        until(lambda: instance.session(id)["program_version"] == version, "the transcript is read")
        fork = instance.json("fork", id)
        assert fork["program_version"] == version
        assert records_no_prompt(instance, fork["session_id"]) is not records
        instance.sm("kill", "--force", id)
        instance.sm("restore", id)
        assert instance.session(id)["program_version"] == version
        assert records_no_prompt(instance, id) is not records
