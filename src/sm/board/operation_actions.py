"""Makes actions of live views from the operations of capabilities. Pure."""

import dataclasses
from collections.abc import Iterator

from sm.board.board_action import ActionInput, ApiCall, BoardAction, InputField, Target
from sm.core.capability_parts import capability_operations
from sm.operations import Operation


def operation_actions() -> Iterator[BoardAction]:
    """The actions of the operations that have a key. Each one applies to the selected session."""
    for operation in capability_operations():
        if operation.key:
            yield operation_action(operation)


def operation_action(operation: Operation) -> BoardAction:
    """The action of an operation on a session. The person enters its arguments as texts."""
    fields = [] if operation.arguments is None else dataclasses.fields(operation.arguments)

    def command(target: Target, words: ActionInput) -> tuple[str, ...]:
        verb, *_ = operation.command.split()
        given = [word for name, value in words.fields.items() for word in (f"--{name}", value)]
        return ("sm", verb, target.session_id or "SESSION", *given)

    def call(target: Target, words: ActionInput) -> ApiCall:
        assert target.session_id is not None
        return ApiCall(operation.path_of(target.session_id), dict(words.fields))

    return BoardAction(
        operation.name,
        operation.key,
        operation.title,
        lambda target: None if target.session_id is not None else "select a session",
        command,
        call,
        fields=tuple(
            InputField(field.name, field.name.capitalize(), required=field.default is dataclasses.MISSING)
            for field in fields
        ),
    )
