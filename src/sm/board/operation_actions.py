"""Makes actions of live views from operations. Pure."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sm.board.board_action import ActionInput, ApiCall, BoardAction, InputField, Target
from sm.core.capability_parts import capability_operations
from sm.operations import DoorNames, Operation


def select_session(target: Target) -> str | None:
    """The refusal of an action on a session."""
    return None if target.session_id is not None else "select a session"


def operation_actions() -> Iterator[BoardAction]:
    """The actions of the operations of capabilities that have a key. Each one applies to the selected session."""
    for operation in capability_operations():
        if operation.key:
            yield operation_action(operation)


def operation_action(operation: Operation) -> BoardAction:
    """The action of an operation on a session. The person enters its arguments as texts."""
    fields = [] if operation.arguments is None else dataclasses.fields(operation.arguments)
    inputs = (
        InputField(field.name, field.name.capitalize(), required=field.default is dataclasses.MISSING)
        for field in fields
    )
    return action_of(operation, select_session, *inputs)


def action_of(
    operation: Operation,
    refusal: Callable[[Target], str | None],
    *fields: InputField,
    is_long: bool = False,
    **more: Any,
) -> BoardAction:
    """The action whose request has the fields that the person fills in. `more`: further attributes of the action."""
    names = [field.name for field in fields]

    def call(target: Target, words: ActionInput) -> ApiCall:
        assert target.session_id is not None or not operation.has_target
        body = {name: words.fields[name] for name in names if name in words.fields}
        return ApiCall(operation.path_of(target.session_id or ""), body, is_long)

    command = typed(operation, *names)
    action = BoardAction(
        operation.name, operation.key, operation.title, refusal, command, call, fields=fields
    )
    return dataclasses.replace(action, needs_session=operation.has_target, **more)


def typed(operation: DoorNames, *names: str) -> Callable[[Target, ActionInput], tuple[str, ...]]:
    """The command of an operation.

    Its words in capitals are the session and then, in order, the fields `names`. Further fields are options.
    """

    def command(target: Target, words: ActionInput) -> tuple[str, ...]:
        line, left = ["sm"], list(names)
        for word in operation.command.split():
            if word == "SESSION":
                word = target.session_id or word
            elif word.isupper() and left:
                word = words.fields.get(left.pop(0), word)
            line.append(word)
        return (*line, *options(words.fields, *left))

    return command


def options(given: Mapping[str, str], *names: str) -> list[str]:
    """The options of a command for the fields that have a value."""
    return [word for name in names if name in given for word in (f"--{name.replace('_', '-')}", given[name])]
