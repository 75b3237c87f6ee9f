"""The table of actions: keys, commands, requests and permissions."""

import shlex
from collections import Counter
from typing import Any

import click
import pytest

from sm.api.routes import ROUTES
from sm.board import ACTIONS, NO_WORDS, ActionInput, ApiCall, Target, command_to_copy, needs
from sm.board.actions import proposes_completion, rule_question
from sm.board.tabs import CHANGES_KEYS
from sm.capabilities.worktrees.rules import ANOTHER_BRANCH, ANOTHER_NAME
from sm.cli.group import COMMANDS, sm
from tests.board.samples import AT_S, message, row
from tests.cli.samples import request

LIVE, ENDED = row(), row(status="completed", pid=None)


def asked(**more: Any) -> Target:
    return Target(row(), needs({}, [request(**more)], [], {}, AT_S)[0])


QUESTION, PERMISSION = asked(), asked(kind="permission", tool="Bash", questions=[])
RULE_LINE = '- {"agent_type": "Engineer", "allow": "Bash(npm test)"}'
RULED = asked(kind="permission", tool="Bash", questions=[], always=RULE_LINE)
DONE = row(status="completed", attention="done")
"""A completed session whose process runs."""
TEAM = Target(LIVE, workspace="shop", audience=("1a2b3c4d", "5e6f7a8b"), cwd="/here")
TO_OPERATOR = message(57, "queued", session_id=None, label="operator", **{"from": "1a2b3c4d"})
UNREAD = Target(row(), needs({}, [], [TO_OPERATOR], {}, AT_S)[0])
TARGETS = [
    QUESTION,
    UNREAD,
    PERMISSION,
    RULED,
    Target(LIVE),
    Target(ENDED),
    Target(row(status="killed", archived=True)),
    Target(DONE),
    TEAM,
]
FIELDS = {
    "agent_type": "Engineer",
    "prompt": "two words",
    "name": "login",
    "working_dir": "/srv",
    "text": "go on",
    "parent": "5e6f7a8b",
    "slug": "blog",
}


def test_every_key_is_one_action() -> None:
    assert max(Counter(action.key for action in ACTIONS.values()).values()) == 1
    views_own = {*"jkgGqu/?:cSeATC$[]0123456789", *CHANGES_KEYS}
    assert len(views_own) == 28 + len(CHANGES_KEYS)
    assert not views_own & {action.key for action in ACTIONS.values()}


@pytest.mark.parametrize("name", ACTIONS)
def test_command_of_an_action_exists_and_takes_the_arguments(name: str) -> None:
    action = ACTIONS[name]
    (target, *_) = (t for t in TARGETS if action.refusal(t) is None)
    words = ActionInput("two words", mode="idle", tree=True, fields=FIELDS)
    program, verb, *arguments = action.command(target, words)
    assert (program, verb) in {("sm", name) for _, name, _ in COMMANDS}
    command = sm.get_command(None, verb)  # type: ignore[arg-type]  # not used
    if isinstance(command, click.Group):
        command = command.get_command(None, arguments.pop(0))  # type: ignore[arg-type]  # not used
    assert command is not None
    command.make_parser(command.make_context(verb, list(arguments), resilient_parsing=True)).parse_args(
        list(arguments)
    )
    assert shlex.split(action.command_line(target, words)) == list(action.command(target, words))


@pytest.mark.parametrize("name", [name for name, action in ACTIONS.items() if action.call])
def test_request_of_an_action_is_one_of_the_daemon(name: str) -> None:
    action = ACTIONS[name]
    (target, *_) = (t for t in TARGETS if action.refusal(t) is None)
    assert action.call is not None
    call = action.call(target, ActionInput("x", ("1",), fields=FIELDS))
    parts = call.path.split("/")
    known = [
        route.path.split("/") for routes in ROUTES.values() for route in routes if route.method == "POST"
    ]
    assert any(
        len(path) == len(parts) and all(p == q or p.startswith("{") for p, q in zip(path, parts, strict=True))
        for path in known
    )


def test_restore_waits_as_long_as_the_command_does() -> None:
    call = ACTIONS["restore"].call
    assert call is not None
    assert call(Target(ENDED), NO_WORDS).is_long


@pytest.mark.parametrize("name", [name for name, action in ACTIONS.items() if action.undo])
def test_undo_of_an_action_is_an_action(name: str) -> None:
    assert ACTIONS[name].undo in ACTIONS


def test_only_new_things_are_possible_without_a_target() -> None:
    assert [name for name, action in ACTIONS.items() if action.refusal(Target()) is None] == [
        *("spawn", "workspace"),
    ]


def made(name: str, target: Target, /, **fields: str) -> ApiCall:
    call = ACTIONS[name].call
    assert call is not None
    return call(target, ActionInput(fields=fields))


def test_new_session_belongs_to_the_chosen_workspace_and_uses_its_directory() -> None:
    directory = {field.name: field for field in ACTIONS["spawn"].fields}["working_dir"].default
    assert (directory(TEAM), directory(Target(LIVE, cwd="/here")), directory(Target(LIVE))) == (
        *("", "/here", "/w"),
    )
    body = made("spawn", TEAM, agent_type="Engineer").body
    assert (body["workspace"], body["working_dir"], body["cwd"]) == ("shop", None, "/here")
    assert ACTIONS["spawn"].command_line(TEAM) == "sm spawn --workspace shop TYPE"
    words = ActionInput(fields={"agent_type": "Engineer", "prompt": "--go"})
    assert ACTIONS["spawn"].command_line(Target(), words) == "sm spawn -- Engineer --go"


@pytest.mark.parametrize(
    ("given", "body", "command"),
    [
        ({}, {}, "sm spawn Engineer"),
        ({"place": "copy"}, {"new_copy": True}, "sm spawn --copy Engineer"),
        (
            {"place": "worktree", "base": "HEAD", "branch": "fix"},
            {"new_worktree": True, "base": "HEAD", "branch": "fix"},
            "sm spawn --worktree --branch fix --base HEAD Engineer",
        ),
        (
            {"place": "worktree", "pr": "7", "remote": "upstream"},
            {"new_worktree": True, "pull_request": 7, "remote": "upstream"},
            "sm spawn --worktree --pr 7 --remote upstream Engineer",
        ),
        (
            {"place": "worktree", "remote_branch": "origin/topic"},
            {"new_worktree": True, "remote_branch": "origin/topic"},
            "sm spawn --worktree --remote-branch origin/topic Engineer",
        ),
        ({"branch": "fix"}, {"branch": "fix"}, "sm spawn --branch fix Engineer"),
    ],
)
def test_new_session_gets_the_place_that_the_person_chooses(
    given: dict[str, str], body: dict[str, object], command: str
) -> None:
    fields = {"agent_type": "Engineer", **given}
    names = {"new_worktree", "new_copy", "base", "branch", "pull_request", "remote_branch", "remote"}
    sent = made("spawn", TEAM, **fields).body
    assert {name: value for name, value in sent.items() if name in names} == body
    assert ACTIONS["spawn"].command_line(Target(), ActionInput(fields=fields)) == command


def test_options_of_a_worktree_are_shown_with_it_alone() -> None:
    fields = ACTIONS["spawn"].fields
    before = ["prompt", "agent_type", "working_dir", "place"]
    after = ["model", "budget", "parent", "name"]
    always = [*before, *after, "workspace"]
    assert [f.name for f in fields if f.is_shown({})] == always
    assert [f.name for f in fields if f.is_shown({"place": "copy"})] == always
    shown = [f.name for f in fields if f.is_shown({"place": "worktree"})]
    rare = ["pr", "remote_branch", "remote", "workspace"]
    assert shown == [*before, "branch", "base", *after, *rare]
    assert [f.name for f in fields if f.is_rare] == rare


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"pr": "7"}, None),
        ({"pr": "seven"}, "Pull request: a number is needed"),
        ({"pr": "-7"}, "Pull request: a number is needed"),
        ({"pr": "9" * 5000}, "Pull request: a number is needed"),
        ({"place": "worktree"}, None),
        ({"place": "elsewhere"}, "Works in: there is no such choice"),
    ],
)
def test_value_that_no_action_can_use_is_refused(given: dict[str, str], problem: str | None) -> None:
    assert ACTIONS["spawn"].input_problem({"agent_type": "Engineer", **given}) == problem


@pytest.mark.parametrize(
    ("hint", "field"),
    [
        (str(ANOTHER_BRANCH), "branch"),
        (str(ANOTHER_NAME), "name"),
        ("to follow it: --remote-branch origin/x; for a new one: --base HEAD", "remote_branch"),
        ("name it: --remote upstream", "remote"),
        ("for a copy of the directory: --copy", "place"),
        ("add --working-dir PATH", "working_dir"),
        ("sm worktree ls --all", ""),
        ("git -C /w/--base-dir branch", ""),
        (None, ""),
    ],
)
def test_refusal_belongs_to_the_field_that_its_hint_names(hint: str | None, field: str) -> None:
    assert ACTIONS["spawn"].field_of(hint) == field


@pytest.mark.parametrize(
    ("code", "words", "field"),
    [
        ("usage", "invalid value for --budget: no unit", "budget"),
        ("unknown_agent_type", "unknown agent type Nope", "agent_type"),
        ("path_refused", "working directory /x does not exist", "working_dir"),
        ("name_taken", "the name engineer-login is taken", "name"),
        ("limit_reached", "too many sessions", ""),
    ],
)
def test_refusal_without_an_option_in_its_hint_belongs_to_a_field_too(
    code: str, words: str, field: str
) -> None:
    assert ACTIONS["spawn"].field_of("look at sm ls", code, words) == field
    assert ACTIONS["rename"].field_of("look at sm ls", code, words) == ""


def test_broadcast_is_one_message_to_each_live_session_of_the_workspace() -> None:
    call = made("broadcast", TEAM, text="pull")
    assert [(body["to"], body["text"]) for body in call.bodies] == [
        *(("1a2b3c4d", "pull"), ("5e6f7a8b", "pull")),
    ]
    assert {body["answer"] for body in call.bodies} == {"message"}, "a broadcast answers no question"
    ask = ACTIONS["broadcast"].question
    assert ask is not None
    assert ask(TEAM) == "Send to 2 live sessions of workspace shop?"
    assert ACTIONS["broadcast"].command_line(TEAM) == "sm broadcast --workspace shop TEXT"


def test_empty_parent_moves_a_session_to_the_operator() -> None:
    assert made("reparent", Target(LIVE)).body == {"parent": None}
    assert ACTIONS["reparent"].command_line(Target(LIVE)) == "sm reparent 1a2b3c4d --operator"
    assert made("reparent", Target(LIVE), parent="5e6f7a8b").body == {"parent": "5e6f7a8b"}


def test_new_name_begins_as_the_present_one_without_its_type() -> None:
    (field,) = ACTIONS["rename"].fields
    assert field.default(Target(row(friendly_name="engineer-login"))) == "login"
    assert field.default(Target(LIVE)) == ""
    assert made("rename", Target(LIVE), name="x").body == {"name": "x"}


def test_question_before_a_removal_tells_what_happens_to_the_worktree() -> None:
    ask = ACTIONS["rm"].question
    assert ask is not None
    assert ask(Target(ENDED)) == "Delete engineer-1a2b3c4d with its messages and files?"
    tree = row(status="completed", worktree={"path": "/w/.sm/worktrees/x", "branch": "sm/x"})
    assert "refused if its worktree has work that exists nowhere else" in ask(Target(tree))


def test_decision_carries_the_digest_of_the_shown_request() -> None:
    call = ACTIONS["deny"].call
    assert call is not None
    decision = call(PERMISSION, ActionInput("use /srv"))
    assert decision.path == "/v1/requests/r57/answer"
    assert decision.body == {"approved": False, "shown": f"{57:032x}", "message": "use /srv"}


def test_rule_that_is_written_is_the_one_in_the_question() -> None:
    action = ACTIONS["always"]
    assert action.question is not None
    assert action.call is not None
    question = action.question(RULED)
    assert f"\n{RULE_LINE}\n" in question and "every session of type Engineer" in question
    call = action.call(RULED, ActionInput())
    assert (call.path, call.body) == ("/v1/requests/r57/rule", {"line": RULE_LINE})
    assert action.call(RULED, ActionInput("- seen")).body == {"line": "- seen"}
    assert action.command(RULED, ActionInput()) == ("sm", "approve", "r57", "--always")
    assert action.question(Target(LIVE)) == action.question(PERMISSION) == ""


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("Bash", "Always allow this to every"),
        ("Edit", "Always allow this, with any other arguments, to every"),
        ("mcp__shop__pay", "Always allow mcp__shop__pay, with any arguments, to every"),
    ],
)
def test_question_before_a_rule_says_which_arguments_it_leaves_open(tool: str, words: str) -> None:
    target = asked(kind="permission", tool=tool, questions=[], always=RULE_LINE)
    assert rule_question(target).startswith(words)


def test_denial_with_draft_comments_is_one_request_to_the_daemon() -> None:
    action, target = ACTIONS["deny"], asked(kind="completion")
    assert action.call is not None
    assert proposes_completion(target) and not proposes_completion(PERMISSION)
    reviewed = {"tree": "b" * 40, "head": "", "base": "a" * 40}
    words = ActionInput("not yet", drafts=(3, 4), reviewed=reviewed)
    decision = action.call(target, words)
    assert decision.path == "/v1/sessions/1a2b3c4d/review/deny"
    comments = {"request": "r57", "shown": f"{57:032x}", "ids": [3, 4]}
    assert decision.body == {**comments, "text": "not yet", **reviewed}
    assert action.call(target, ActionInput(drafts=(3, 4))).body == {**comments, "text": None}
    assert action.call(target, ActionInput("why")).path == "/v1/requests/r57/answer"
    assert action.command(target, words) == ("sm", "deny", "r57", "--review")


@pytest.mark.parametrize(
    ("name", "target", "reason"),
    [
        ("answer", PERMISSION, "select an open question"),
        ("answer", asked(cut=True), "the question is cut: attach to answer it"),
        ("approve", Target(LIVE), "select an open request"),
        ("always", Target(LIVE), "select an open request"),
        ("always", PERMISSION, "no rule can say exactly what this request asks for"),
        ("always", QUESTION, "no rule can say exactly what this request asks for"),
        ("send", Target(ENDED), "the process of engineer-1a2b3c4d has ended"),
        ("attach", Target(ENDED), "the process of engineer-1a2b3c4d has ended"),
        ("restore", Target(DONE), "the process of engineer-1a2b3c4d still runs"),
        ("seen", Target(LIVE), "engineer-1a2b3c4d is seen already"),
        ("kill", Target(ENDED), "the process of engineer-1a2b3c4d has ended"),
        ("archive", Target(LIVE), "engineer-1a2b3c4d is live"),
        ("archive", Target(row(status="killed", archived=True)), "it is archived already"),
        ("unarchive", Target(ENDED), "it is not archived"),
        ("restore", Target(LIVE), "engineer-1a2b3c4d is live"),
        ("rm", Target(LIVE), "engineer-1a2b3c4d is live"),
        ("fork", Target(row(provider="command")), "engineer-1a2b3c4d is a program without a conversation"),
        ("broadcast", Target(workspace="shop"), "there is no live session in workspace shop"),
    ],
)
def test_action_is_refused_with_its_reason(name: str, target: Target, reason: str) -> None:
    assert ACTIONS[name].refusal(target) == reason


@pytest.mark.parametrize("name", ["attach", "send", "kill", "seen", "archive"])
def test_completed_agent_that_lives_takes_messages_and_a_person(name: str) -> None:
    assert ACTIONS[name].refusal(Target(DONE)) is None


def test_question_before_a_kill_names_the_descendants() -> None:
    kill = ACTIONS["kill"]
    assert kill.question is not None
    assert (kill.question(Target(LIVE)), kill.wider(Target(LIVE))) == ("Kill engineer-1a2b3c4d?", "")
    tree = {"sessions": 4, "live": 3, "tokens": None, "cost_usd": None}
    assert kill.wider(Target(row(tree=tree))) == "with its 2 live descendants"


def test_values_of_fields_are_complete_and_known() -> None:
    spawn = ACTIONS["spawn"]
    assert spawn.input_problem({"agent_type": "Engineer", "prompt": "x"}) is None
    assert spawn.input_problem({"prompt": "x"}) == "a value is missing: Agent type"
    assert spawn.input_problem({"agent_type": "Engineer", "path": "x"}) == "spawn has no field 'path'"
    assert ACTIONS["kill"].input_problem({"name": "x"}) == "kill has no field 'name'"


def test_command_to_copy_answers_a_request_and_shows_a_session() -> None:
    assert command_to_copy(QUESTION) == "sm answer r57 TEXT"
    assert command_to_copy(PERMISSION) == "sm approve r57"
    assert command_to_copy(Target(LIVE)) == "sm status 1a2b3c4d"
    assert command_to_copy(Target()) == "sm ls"


def test_dialog_at_a_terminal_offers_no_answer_but_the_command_to_attach() -> None:
    dialog = asked(kind="dialog")
    assert command_to_copy(dialog) == "sm attach 1a2b3c4d"
    for name in ("approve", "deny"):
        assert ACTIONS[name].refusal(dialog) == "only a person at its terminal can answer this dialog: attach"
    assert ACTIONS["answer"].refusal(dialog) == "select an open question"


def test_words_of_an_answer_are_its_arguments() -> None:
    assert ACTIONS["answer"].command(QUESTION, ActionInput(answers=("1", "on Friday"))) == (
        *("sm", "answer", "r57", "1", "on Friday"),
    )
    assert ACTIONS["approve"].command_line(PERMISSION, NO_WORDS) == "sm approve r57"
