"""A change of config.yaml while the daemon runs: it applies within two seconds, or changes nothing and is shown."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sm.capabilities.budgets.tables import PART
from sm.capabilities.digest.digests import DigestTimer
from sm.providers.claude.screen import State, read_title
from tests.sim.file_events import PlayedNotices
from tests.sim.stage import INSTANCE_CONFIG, Instance

SMALL = "limits: {max_per_workspace: 1}\n"
LARGE = "limits: {max_per_workspace: 2}\n"
WITHIN_S = 2
SLEEPER = ("spawn", "Sleeper", "x")


def keep(notices: PlayedNotices) -> None:
    """Change nothing."""


def lose(notices: PlayedNotices) -> None:
    notices.are_lost = True


def delay(notices: PlayedNotices) -> None:
    notices.delay_s = 60


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance(SMALL) as instance:
        instance.start_daemon()
        yield instance


def write(instance: Instance, more: str) -> None:
    """Replace the file, and let as much time pass as the daemon may take."""
    new = instance.config.with_suffix(".new")
    new.write_text(INSTANCE_CONFIG.format(more=more))
    os.replace(new, instance.config)
    instance.wait(WITHIN_S)


def problems(instance: Instance) -> list[str]:
    found: list[str] = instance.get("/v1/status")["trouble"]
    return found


def logged(instance: Instance) -> list[dict[str, Any]]:
    text = (instance.state / "log" / "daemon.log").read_text()
    return [json.loads(record) for record in text.splitlines()]


@pytest.mark.parametrize("fault", [keep, lose, delay])
def test_changed_limit_applies_within_two_seconds(
    instance: Instance, fault: Callable[[PlayedNotices], None]
) -> None:
    fault(instance.world.file_events)
    instance.spawn(*SLEEPER[1:])
    instance.refused(*SLEEPER, exit_code=6)
    write(instance, LARGE)
    instance.sm(*SLEEPER)
    assert problems(instance) == []
    assert any(record["message"].endswith(": limits.max_per_workspace") for record in logged(instance))


def test_daily_budget_that_a_full_disk_refuses_begins_when_there_is_room(instance: Instance) -> None:
    instance.config.write_text(INSTANCE_CONFIG.format(more=SMALL + "budgets: {daily_usd: 5}\n"))
    instance.world.disk.is_full = True
    instance.wait(WITHIN_S)
    assert any("the configuration is not applied" in problem for problem in problems(instance))
    instance.world.disk.is_full = False
    instance.wait(WITHIN_S)
    assert not any("the configuration is not applied" in problem for problem in problems(instance))
    assert "daily" in {budget.id for budget in PART.rows_of(instance.world.daemon.store.mail.open).values()}


def test_file_written_in_place_applies_within_two_seconds(instance: Instance) -> None:
    instance.spawn(*SLEEPER[1:])
    instance.config.write_text(INSTANCE_CONFIG.format(more=LARGE))
    instance.wait(WITHIN_S)
    instance.sm(*SLEEPER)


def test_file_that_appears_after_the_start_applies() -> None:
    with Instance() as instance:
        text = instance.config.read_text()
        instance.config.unlink()
        instance.start_daemon()
        instance.refused(*SLEEPER, exit_code=2)
        instance.config.write_text(text)
        instance.wait(WITHIN_S)
        instance.sm(*SLEEPER)


def test_added_and_changed_agent_types_are_those_of_the_next_spawn(instance: Instance) -> None:
    added = "  Echo: {command: [sh, -c, 'exec sleep 9'], env: {DEPTH: '2'}}\n"
    instance.refused("spawn", "Echo", exit_code=2)
    write(instance, added)
    session = instance.spawn("Echo")
    assert instance.world.programs.running[session["session_id"]].environ["DEPTH"] == "2"
    write(instance, "")
    assert "unknown agent type" in instance.refused("spawn", "Echo", exit_code=2)


def test_changed_variables_are_inherited_by_the_next_agent(instance: Instance) -> None:
    write(instance, "sessions: {inherit_environment_vars: [TICKET]}\n")
    session = instance.spawn("Sleeper", "x", env={"TICKET": "1042"})
    assert instance.world.programs.running[session["session_id"]].environ["TICKET"] == "1042"


def test_changed_mode_is_that_of_the_next_spawn(instance: Instance) -> None:
    write(instance, "child_agents: {mode: manual}\n")
    assert instance.spawn("Sleeper", "x")["mode"] == "manual"


def test_daily_budget_begins_when_it_is_added(instance: Instance) -> None:
    instance.refused("budget", "daily", "--set", "usd=3", exit_code=4)
    write(instance, "budgets: {daily_usd: 20}\n")
    instance.sm("budget", "daily", "--set", "usd=3")


def test_digest_is_planned_when_its_time_is_added(instance: Instance) -> None:
    def planned() -> object:
        timer = instance.world.daemon.store.mail.open.timers.get(("digest", DigestTimer.DAY))
        return None if timer is None else timer.data["at"]

    assert planned() is None
    write(instance, 'notify: {digest_at: "07:00"}\n')
    assert planned() == "07:00"
    write(instance, "")
    assert planned() is None


WRONG = [
    (INSTANCE_CONFIG.format(more="limits: {max_per_workspace: many}\nextra: 1"), "limits.max_per_workspace"),
    ("limits: {max_per_workspace: 9", "expected"),
    ("", "is empty"),
    (None, "is missing"),
]


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_wrong_file_changes_nothing_and_is_shown(instance: Instance, text: str | None, reason: str) -> None:
    before = instance.config.read_text()
    if text is None:
        instance.config.unlink()
    else:
        instance.config.write_text(text)
    instance.wait(WITHIN_S)
    (problem,) = problems(instance)
    assert "the configuration is not applied" in problem
    assert reason in problem
    assert f"Problem:      {problem}"[:60] in instance.sm("status")
    instance.sm(*SLEEPER)
    assert "max_per_workspace" in instance.refused(*SLEEPER, exit_code=6)
    instance.config.write_text(before)
    instance.wait(WITHIN_S)
    assert problems(instance) == []


def test_wrong_file_is_logged_once(instance: Instance) -> None:
    instance.config.write_text("limits: 1\n")
    instance.wait(60)
    assert sum("was not applied" in record["message"] for record in logged(instance)) == 1


def test_session_is_not_shown_the_mistakes_of_the_file(instance: Instance) -> None:
    session = instance.spawn(*SLEEPER[1:])["session_id"]
    instance.config.write_text("claude: {env: {KEY: 1042}}\n")
    instance.wait(WITHIN_S)
    assert len(problems(instance)) == 1
    (status,) = instance.request_as(session, ("GET", "/v1/status"))
    assert status[1]["trouble"] == []
    (refused,) = instance.request_as(session, ("GET", "/v1/config"))
    assert refused[0] == "not_permitted"
    assert "hint" not in instance.run("config", "--check", env=instance.as_session(session)).stdout


def test_changes_that_need_a_restart_are_named_and_the_others_apply(instance: Instance) -> None:
    instance.spawn(*SLEEPER[1:])
    write(instance, LARGE + "tmux: {width: 120}\n")
    instance.sm(*SLEEPER)
    assert instance.sm("config", "--check").splitlines() == [
        f"ok: {instance.config}",
        "needs sm daemon restart: tmux",
    ]
    assert problems(instance) == ["only a restart applies the change of tmux: sm daemon restart"]
    warned = [record["message"] for record in logged(instance) if record["level"] == "warning"]
    assert warned == ["only a restart applies the change of tmux"]
    instance.restart_daemon()
    assert problems(instance) == []
    assert instance.sm("config", "--check") == f"ok: {instance.config}\n"


def test_change_that_is_taken_back_needs_no_restart(instance: Instance) -> None:
    write(instance, SMALL + "telegram: {owner_ids: [7]}\n")
    assert len(problems(instance)) == 1
    write(instance, SMALL)
    assert problems(instance) == []


def test_config_check_applies_a_change_without_waiting(instance: Instance) -> None:
    instance.spawn(*SLEEPER[1:])
    instance.config.write_text(INSTANCE_CONFIG.format(more=LARGE))
    assert instance.sm("config", "--check") == f"ok: {instance.config}\n"
    instance.sm(*SLEEPER)


def test_config_check_starts_no_daemon() -> None:
    with Instance() as instance:
        assert instance.sm("config", "--check") == f"ok: {instance.config}\n"
        assert not instance.socket.exists()


def test_changed_briefing_is_that_of_the_next_agent() -> None:
    with Instance() as instance:
        briefing = instance.home / "briefing.txt"
        briefing.write_text("one")
        instance.config.write_text(INSTANCE_CONFIG.format(more=f"claude: {{briefing: {briefing}}}\n"))
        instance.start_daemon()
        briefing.unlink()
        instance.wait(WITHIN_S)
        (problem,) = problems(instance)
        assert str(briefing) in problem
        briefing.write_text("two")
        instance.wait(WITHIN_S)
        assert problems(instance) == []


def test_dialect_beside_the_configuration_counts_while_the_daemon_runs() -> None:
    with Instance() as instance:
        instance.start_daemon()
        own = instance.config.parent / "dialect" / "claude.toml"
        own.parent.mkdir()
        own.write_text('[title.busy]\ntexts = ["◰-◳"]\n')
        instance.wait(WITHIN_S)
        assert read_title("◰ title") is State.WORKING
        own.write_text('[title.bussy]\ntexts = ["◰"]\n')
        instance.wait(WITHIN_S)
        (problem,) = problems(instance)
        assert f"{own}: there is no fact title.bussy; do you mean title.busy?" in problem
        assert read_title("◰ title") is State.WORKING  # the last one without a mistake stays
        own.unlink()
        instance.wait(WITHIN_S)
        assert problems(instance) == []
        assert read_title("◰ title") is None
