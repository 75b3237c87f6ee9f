"""`sm spawn` without arguments: the questions on a terminal, and the usage error without one."""

import re
from collections.abc import Iterator, Mapping

import pytest

from tests.played.test_spawn_choices import CONFIG, repository
from tests.sim.command import Completed, Terminal
from tests.sim.stage import Instance


@pytest.fixture
def home() -> Iterator[Instance]:
    instance = Instance(config=CONFIG)
    instance.sm("ls")
    yield instance
    instance.end()


def typed(home: Instance, *answers: str, env: Mapping[str, str] | None = None) -> Completed:
    """Run `sm spawn` on a terminal with these answers, one in each line."""
    text = "".join(f"{answer}\n" for answer in answers)
    return home.command.run(("spawn",), {**home.env, **(env or {})}, home.work, Terminal(text, 100))


def test_questions_follow_the_fields_of_the_sheet_and_the_command_is_printed(home: Instance) -> None:
    app = repository(home.work / "app")
    home.spawn("Sh", "exec sleep 1000", cwd=app)
    ended = typed(home, "exec sleep 1000", "Other", str(app), "n", "", "", "", "login")
    shown = ended.stdout
    assert ended.returncode == 0, shown
    places = [
        shown.index(question)
        for question in (
            "Task (optional; without it the agent waits for a message): ",
            "Agent type [Sh]: ",
            f"Directory [{home.work}]: ",
            "Works in a git worktree of its own? [Y/n] ",
            "Model (default: that of the agent type): ",
            "Budget (such as usd=5,minutes=90): ",
            "Parent (default: you): ",
            "Name (optional): ",
            f"Starts Other in {app}.",
            f"sm spawn --name login --working-dir {app} Other 'exec sleep 1000'",
            "Spawned other-login",
        )
    ]
    assert places == sorted(places)
    assert home.session("other-login")["working_dir"] == str(app)


def test_enter_takes_the_defaults_and_a_number_a_suggestion(home: Instance) -> None:
    home.spawn("Sh", "exec sleep 1000")
    listed = re.search(r"([0-9]+)  Sh$", typed(home, "x").stdout, re.MULTILINE)
    assert listed is not None
    number = listed[1]
    ended = typed(home, "exec sleep 1000", number, "", "", "", "", "", "second")
    assert ended.returncode == 0, ended.stdout
    assert "sm spawn --name second Sh 'exec sleep 1000'\n" in ended.stdout.replace("\r", "")
    assert home.session("sh-second")["working_dir"] == str(home.work)


def test_wrong_answer_is_asked_for_again(home: Instance) -> None:
    answers = (
        "exec sleep 1000",
        "Nope",
        "",
        "Sh",
        "missing",
        str(home.work),
        "",
        "",
        "",
        "nobody",
        "",
        "third",
    )
    ended = typed(home, *answers)
    assert ended.returncode == 0, ended.stdout
    for problem in (
        "there is no agent type Nope here",
        "a value is missing",
        "does not exist",
        "no such session",
    ):
        assert problem in ended.stdout
    assert home.session("sh-third")["working_dir"] == str(home.work)


def test_dash_is_refused_as_a_task_and_reads_no_stdin(home: Instance) -> None:
    ended = typed(home, "-", "exec sleep 1000", "Sh", "", "", "", "", "", "fourth")
    assert ended.returncode == 0, ended.stdout
    assert "- means stdin in the command: write the task, or leave it empty" in ended.stdout
    assert "sm spawn --name fourth Sh 'exec sleep 1000'\n" in ended.stdout.replace("\r", "")


def test_end_of_the_input_starts_nothing(home: Instance) -> None:
    ended = typed(home, "exec sleep 1000", "Sh")
    assert ended.returncode == 4
    assert "cancelled: no agent was started" in ended.stdout
    assert home.json("all") == []


def test_command_without_arguments_is_a_usage_error_without_a_terminal_and_for_an_agent(
    home: Instance,
) -> None:
    message = home.refused("spawn", exit_code=2)
    assert "AGENT_TYPE" in message
    agent = home.spawn("Sh", "exec sleep 1000")["session_id"]
    ended = typed(home, "x", "Sh", env=home.as_session(agent))
    assert (ended.returncode, "Task" in ended.stdout) == (2, False)
