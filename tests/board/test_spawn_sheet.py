"""The sheet that starts an agent: its defaults, its notes, its problems and its command."""

from collections.abc import Mapping
from typing import Any

import pytest

from sm.board import Target
from sm.board.spawn_sheet import (
    SheetField,
    SpawnSheet,
    asked_field,
    choices_query,
    kept_for_another,
    spawn_sheet,
    suggested_text,
)
from sm.core.text import PROMPT_MAX

ESTIMATE = {
    "seconds": {"p50": 720.0, "p90": 1800.0},
    "tokens": None,
    "cost_usd": {"p50": 0.4, "p90": 1.9},
    "samples": 12,
    "basis": "sessions",
}


def kind(name: str, **more: Any) -> dict[str, Any]:
    facts = {
        "provider": "claude",
        "model": None,
        "description": None,
        "permission_mode": None,
        "takes_files": True,
    }
    return {"name": name, **facts, "auto_allow": [], "auto_deny": [], "estimate": None, **more}


def place(
    path: str, own: str | None = "worktree", workspace: str | None = None, **more: Any
) -> dict[str, Any]:
    return {"path": path, "workspace": workspace, "own_place": own, "problem": None, "used_at": None, **more}


ENGINEER = kind(
    "Engineer",
    model="opus",
    description="Writes code",
    permission_mode="acceptEdits",
    auto_allow=["Read", "Bash(npm test *)"],
    auto_deny=["Bash(rm *)"],
    estimate=ESTIMATE,
)
KNOWN: Mapping[str, Any] = {
    "directory": None,
    "directories": [place("/w/app"), place("/w/notes", "copy"), place("/w/shop", workspace="shop")],
    "workspaces": [{"slug": "shop", "working_dir": "/w/shop"}, {"slug": "blog", "working_dir": "/w/blog"}],
    "agent_type": "Engineer",
    "types": [ENGINEER, kind("Writer")],
    "models": ["opus", "haiku"],
}
FIRST_RUN: Mapping[str, Any] = {
    **KNOWN,
    "directories": [],
    "workspaces": [],
    "agent_type": None,
    "types": [kind("Engineer")],
}
ALL, SHOP = Target(), Target(workspace="shop")


def sheet(known: Mapping[str, Any] | None = KNOWN, target: Target = ALL, /, **given: str) -> SpawnSheet:
    return spawn_sheet(known, given, target)


def field(shown: SpawnSheet, name: str) -> SheetField:
    return next(each for each in shown.fields if each.field.name == name)


def names(shown: SpawnSheet) -> list[str]:
    return [each.field.name for each in shown.fields]


def test_fields_stand_in_the_order_of_the_questions() -> None:
    common = ["prompt", "agent_type", "working_dir", "place"]
    assert [f.field.name for f in sheet().fields if not f.field.is_rare] == [
        *(*common, "branch", "base"),
        *("model", "budget", "parent", "name"),
    ]
    assert names(sheet(working_dir="/w/notes"))[:5] == [*common, "model"]
    assert [f.field.name for f in sheet().fields if f.field.is_rare] == [
        *("pr", "remote_branch", "remote", "workspace"),
    ]


def test_untouched_sheet_has_what_was_used_last() -> None:
    shown = sheet()
    assert {name: field(shown, name).value for name in ("agent_type", "working_dir", "place")} == {
        "agent_type": "Engineer",
        "working_dir": "/w/app",
        "place": "worktree",
    }
    assert shown.problem() is None
    assert shown.command == "sm spawn --working-dir /w/app --worktree Engineer"
    assert shown.prediction == "Starts Engineer in a new git worktree of /w/app. It waits for a message."


def test_first_run_asks_for_a_directory_and_takes_the_only_agent_type() -> None:
    shown = sheet(FIRST_RUN)
    assert field(shown, "agent_type").value == "Engineer"
    directory = field(shown, "working_dir")
    assert (directory.value, directory.problem) == ("", "a value is missing: Directory")
    assert directory.hint == "an absolute path, such as /home/me/app"
    assert shown.prediction == "Choose a directory."
    assert [value for value, _ in field(shown, "place").choices] == [""]
    assert sheet(FIRST_RUN, Target(cwd="/here")).problem() is None


def test_sheet_without_agent_types_says_how_to_define_one() -> None:
    shown = sheet({**FIRST_RUN, "types": []})
    assert field(shown, "agent_type").hint == "none is defined"
    assert field(shown, "agent_type").notes == (
        "Define an agent type in config.yaml: sm config --example shows how.",
    )
    assert shown.prediction == "Choose an agent type."
    assert field(sheet({**KNOWN, "agent_type": None}), "agent_type").value == ""


def test_sheet_before_its_facts_have_come_has_no_problem_of_its_own() -> None:
    shown = sheet(None, agent_type="Engineer", prompt="go")
    assert shown.problem() is None
    assert [value for value, _ in field(shown, "place").choices] == ["", "worktree", "copy"]
    assert shown.command == "sm spawn Engineer go"


def test_agent_type_tells_what_it_is_for_and_what_it_may_do() -> None:
    shown = field(sheet(agent_type="engineer"), "agent_type")
    assert shown.value == "Engineer"
    assert shown.notes == (
        "Writes code",
        "Runs claude, opus, permission mode acceptEdits.",
        "May do without asking: Read, Bash(npm test *).",
        "May never do: Bash(rm *).",
    )
    rules = [f"Read(/{number})" for number in range(15)]
    many = {**KNOWN, "types": [kind("Engineer", auto_allow=rules)]}
    assert field(sheet(many), "agent_type").notes[-1].endswith("Read(/7) and 7 more.")
    assert field(sheet(agent_type="Nope"), "agent_type").problem == "there is no agent type Nope here"


@pytest.mark.parametrize(
    ("known", "place_choices", "default", "notes"),
    [
        (place("/x"), ["", "worktree"], "worktree", "in no workspace, git repository"),
        (place("/x", "copy", "shop"), ["", "copy"], "", "workspace shop, no git repository"),
        (place("/x", "none"), [""], "", "in no workspace, a git repository without a commit"),
        (place("/x", None), ["", "worktree", "copy"], "", "in no workspace"),
    ],
)
def test_directory_decides_what_an_agent_can_have_of_its_own(
    known: dict[str, Any], place_choices: list[str], default: str, notes: str
) -> None:
    shown = sheet({**KNOWN, "directory": known}, working_dir="/x")
    assert [value for value, _ in field(shown, "place").choices] == place_choices
    assert field(shown, "place").value == default
    assert field(shown, "working_dir").notes == (notes,)
    other = sheet({**KNOWN, "directory": known}, working_dir="/x", place="copy")
    assert field(other, "place").value == ("copy" if "copy" in place_choices else default)


def test_directory_that_cannot_be_used_is_a_problem_of_its_field() -> None:
    missing = place("/x", None, problem="does not exist")
    shown = sheet({**KNOWN, "directory": missing}, working_dir="/x")
    assert (problem := shown.problem()) is not None
    assert (problem.field.name, problem.problem) == ("working_dir", "/x does not exist")


def test_directory_is_an_absolute_path() -> None:
    shown = field(sheet(working_dir="here"), "working_dir")
    assert shown.problem == "an absolute path is needed, such as /home/me/project"


def test_person_may_take_the_directory_itself() -> None:
    shown = sheet(place="")
    assert field(shown, "place").notes == (
        "The agent works in the directory itself: you and other agents see its changes at once.",
    )
    assert shown.command == "sm spawn --working-dir /w/app Engineer"


@pytest.mark.parametrize(
    ("target", "given", "command"),
    [
        (SHOP, {}, "sm spawn --worktree --workspace shop Engineer"),
        (
            SHOP,
            {"working_dir": "/w/app"},
            "sm spawn --working-dir /w/app --worktree --workspace shop Engineer",
        ),
        (
            Target(workspace="blog"),
            {"working_dir": "/w/shop"},
            "sm spawn --working-dir /w/shop --worktree Engineer",
        ),
        (SHOP, {"parent": "lead"}, "sm spawn --parent lead Engineer"),
        (
            SHOP,
            {"workspace": "-", "working_dir": "/w/app", "place": ""},
            "sm spawn --working-dir /w/app --workspace - Engineer",
        ),
        (Target(cwd="/w/app"), {}, "sm spawn --worktree Engineer"),
        (Target(cwd="/w/app"), {"working_dir": "/w/notes"}, "sm spawn --working-dir /w/notes Engineer"),
        (
            ALL,
            {"place": "", "name": "login", "model": "haiku", "budget": "usd=5", "prompt": "fix it\nnow"},
            "sm spawn --name login --working-dir /w/app --model haiku --budget usd=5 Engineer 'fix it\nnow'",
        ),
        (ALL, {"prompt": "- one"}, "sm spawn --working-dir /w/app --worktree -- Engineer '- one'"),
    ],
)
def test_command_is_what_a_person_would_type(target: Target, given: dict[str, str], command: str) -> None:
    assert sheet(KNOWN, target, **given).command == command


def test_values_for_the_action_are_those_of_the_command() -> None:
    shown = sheet(KNOWN, SHOP, prompt="  indented", parent="")
    assert shown.values == {
        "prompt": "  indented",
        "agent_type": "Engineer",
        "place": "worktree",
        "workspace": "shop",
    }


def test_budget_has_the_estimate_of_similar_sessions() -> None:
    assert field(sheet(), "budget").notes == (
        "Similar sessions cost $0.40 to $1.90 and took 12min to 30min (median and 90th percentile of 12).",
    )
    assert field(sheet(agent_type="Writer"), "budget").notes == (
        "No estimate: fewer than 5 similar sessions have completed.",
    )
    assert field(sheet(agent_type="Nope"), "budget").notes == ()


def test_prediction_names_the_budget() -> None:
    assert sheet(budget="usd=5", prompt="go").prediction == (
        "Starts Engineer in a new git worktree of /w/app, with a budget of usd=5."
    )


def test_task_that_is_too_long_is_a_problem_before_it_is_sent() -> None:
    assert sheet(prompt="x" * PROMPT_MAX).problem() is None
    problem = sheet(prompt="x" * (PROMPT_MAX + 1)).problem()
    assert problem is not None
    assert problem.problem.startswith("the task has 10,001 characters, at most 10,000 are possible")


def test_dash_is_no_task_because_the_command_would_read_stdin() -> None:
    for task in ("-", " -\n"):
        problem = sheet(prompt=task).problem()
        assert problem is not None and problem.field.name == "prompt"
        assert problem.problem == "- means stdin in the command: write the task, or leave it empty"
    assert sheet(prompt="--all").problem() is None


def test_parent_decides_directory_and_workspace() -> None:
    known = {**KNOWN, "directory": place("/w/lead", "worktree", "shop")}
    shown = sheet(known, SHOP, parent="lead")
    assert "workspace" not in names(shown)
    assert field(shown, "working_dir").hint == "default: the directory of lead"
    assert shown.command == "sm spawn --worktree --parent lead Engineer"
    assert shown.prediction == (
        "Starts Engineer in a new git worktree of /w/lead, below lead. It waits for a message."
    )


def test_refusal_of_the_daemon_stands_at_its_field() -> None:
    shown = spawn_sheet(KNOWN, {"parent": "nobody"}, ALL, {"parent": "no such session: nobody"})
    assert (problem := shown.problem()) is not None
    assert (problem.field.name, problem.problem) == ("parent", "no such session: nobody")


@pytest.mark.parametrize(
    ("query", "code", "name"),
    [
        ({"parent": "x"}, "not_found", "parent"),
        ({"workspace": "x"}, "not_found", "workspace"),
        ({"working_dir": "x"}, "path_refused", "working_dir"),
        ({}, "bug", ""),
    ],
)
def test_refused_question_is_about_a_field(query: dict[str, str], code: str, name: str) -> None:
    assert asked_field(query, code) == name


def test_query_has_what_the_facts_depend_on() -> None:
    assert choices_query({"prompt": "x"}, Target(workspace="shop", cwd="/here")) == {
        "workspace": "shop",
        "cwd": "/here",
    }
    given = {"parent": "lead", "model": " opus ", "working_dir": "here"}
    assert choices_query(given, SHOP) == {"parent": "lead", "model": "opus"}


def test_another_agent_begins_with_all_but_the_task_and_the_name() -> None:
    given = {"prompt": "x", "name": "login", "branch": "fix", "model": "opus", "place": ""}
    assert kept_for_another(given) == {"model": "opus", "place": ""}


@pytest.mark.parametrize(
    ("text", "value"), [("1", "Engineer"), ("2", "Writer"), ("3", "3"), ("0", "0"), ("x", "x")]
)
def test_number_stands_for_a_suggestion(text: str, value: str) -> None:
    assert suggested_text(["Engineer", "Writer"], text) == value
