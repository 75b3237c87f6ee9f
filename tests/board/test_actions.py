"""The table of actions: keys, commands, requests and permissions."""

import shlex
from collections import Counter
from typing import Any

import pytest

from sm.api.routes import ROUTES
from sm.board import ACTIONS, NO_WORDS, ActionInput, Target, command_to_copy, needs
from sm.cli import COMMANDS
from sm.cli.group import sm
from tests.board.samples import AT_S, row
from tests.cli.samples import request

LIVE, ENDED = row(), row(status="completed", pid=None)


def asked(**more: Any) -> Target:
    return Target(row(), needs({}, [request(**more)], [], {}, AT_S)[0])


QUESTION, PERMISSION = asked(), asked(kind="permission", tool="Bash", questions=[])
TARGETS = [QUESTION, PERMISSION, Target(LIVE), Target(ENDED), Target(row(status="killed", archived=True))]


def test_every_key_is_one_action() -> None:
    assert max(Counter(action.key for action in ACTIONS.values()).values()) == 1
    views_own = {*"jkgGqu/?:c0123456789", "n", "f", "e"}
    assert not views_own & {action.key for action in ACTIONS.values()}


@pytest.mark.parametrize("name", ACTIONS)
def test_command_of_an_action_exists_and_takes_the_arguments(name: str) -> None:
    action = ACTIONS[name]
    (target, *_) = (t for t in TARGETS if action.refusal(t) is None)
    words = ActionInput("two words", mode="idle", tree=True)
    program, verb, *arguments = action.command(target, words)
    assert (program, verb) in {("sm", name) for _, name, _ in COMMANDS}
    command = sm.get_command(None, verb)  # type: ignore[arg-type]  # not used
    assert command is not None
    command.make_parser(command.make_context(verb, list(arguments), resilient_parsing=True)).parse_args(
        list(arguments)
    )
    assert shlex.split(action.command_line(target, words)) == [program, verb, *arguments]


@pytest.mark.parametrize("name", [name for name, action in ACTIONS.items() if action.call])
def test_request_of_an_action_is_one_of_the_daemon(name: str) -> None:
    action = ACTIONS[name]
    (target, *_) = (t for t in TARGETS if action.refusal(t) is None)
    assert action.call is not None
    call = action.call(target, ActionInput("x", ("1",)))
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


def test_nothing_is_possible_without_a_target() -> None:
    assert all(action.refusal(Target()) for action in ACTIONS.values())


def test_decision_carries_the_digest_of_the_shown_request() -> None:
    call = ACTIONS["deny"].call
    assert call is not None
    made = call(PERMISSION, ActionInput("use /srv"))
    assert made.path == "/v1/requests/r57/answer"
    assert made.body == {"approved": False, "shown": f"{57:032x}", "message": "use /srv"}


@pytest.mark.parametrize(
    ("name", "target", "reason"),
    [
        ("answer", PERMISSION, "select an open question"),
        ("answer", asked(cut=True), "the question is cut: attach to answer it"),
        ("approve", Target(LIVE), "select an open request"),
        ("send", Target(ENDED), "engineer-1a2b3c4d has ended"),
        ("kill", Target(ENDED), "the process of engineer-1a2b3c4d has ended"),
        ("archive", Target(LIVE), "engineer-1a2b3c4d is live"),
        ("archive", Target(row(status="killed", archived=True)), "it is archived already"),
        ("unarchive", Target(ENDED), "it is not archived"),
        ("restore", Target(LIVE), "engineer-1a2b3c4d is live"),
    ],
)
def test_action_is_refused_with_its_reason(name: str, target: Target, reason: str) -> None:
    assert ACTIONS[name].refusal(target) == reason


def test_question_before_a_kill_names_the_descendants() -> None:
    ask = ACTIONS["kill"].question
    assert ask is not None
    assert ask(Target(LIVE)) == "Kill engineer-1a2b3c4d? y: yes, Esc: no"
    tree = {"sessions": 4, "live": 3, "tokens": None, "cost_usd": None}
    assert ask(Target(row(tree=tree))).startswith(
        "Kill engineer-1a2b3c4d? y: yes, t: with its 2 live descendants"
    )


def test_command_to_copy_answers_a_request_and_shows_a_session() -> None:
    assert command_to_copy(QUESTION) == "sm answer r57 TEXT"
    assert command_to_copy(PERMISSION) == "sm approve r57"
    assert command_to_copy(Target(LIVE)) == "sm status 1a2b3c4d"
    assert command_to_copy(Target()) == "sm ls"


def test_words_of_an_answer_are_its_arguments() -> None:
    assert ACTIONS["answer"].command(QUESTION, ActionInput(answers=("1", "on Friday"))) == (
        *("sm", "answer", "r57", "1", "on Friday"),
    )
    assert ACTIONS["approve"].command_line(PERMISSION, NO_WORDS) == "sm approve r57"
