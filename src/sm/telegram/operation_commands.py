"""Makes commands of the bot from the operations of capabilities."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from sm.core.capability_parts import capability_operations
from sm.core.telegram_model import session_object
from sm.kernel import OperationCall, UseCases
from sm.operations import Operation
from sm.telegram.command_call import BotCommand, CommandCall
from sm.telegram.replies import BotReply


async def run_operation(
    operation: Operation, use_cases: UseCases, call: CommandCall, target: str, values: Mapping[str, Any]
) -> BotReply:
    """Carry out an operation. `values`: its arguments by name. Raises SmError."""
    arguments = None if operation.arguments is None else operation.arguments(**values)
    result = await use_cases[operation](OperationCall(call.caller, target, arguments, call.key))
    return BotReply("Done." if operation.done is None else operation.done(result))


async def _run_command(operation: Operation, use_cases: UseCases, call: CommandCall) -> BotReply:
    fields = [] if operation.arguments is None else dataclasses.fields(operation.arguments)
    words = call.rest if operation.has_target is False else call.rest.partition(" ")[2].strip()
    values = {fields[0].name: words} if fields and words else {}
    if not operation.has_target:
        return await run_operation(operation, use_cases, call, "", values)
    session = call.session()
    reply = await run_operation(operation, use_cases, call, session.id, values)
    return dataclasses.replace(reply, about=session_object(session.id))


def operation_commands() -> dict[str, BotCommand]:
    """The commands of the operations that have one, by name."""
    operations = capability_operations()
    return {operation.chat: operation_command(operation) for operation in operations if operation.chat}


def operation_command(operation: Operation) -> BotCommand:
    """The command of an operation: the text after the target is its first argument."""
    usage = operation.chat_form or " ".join(
        (*(["ID"] if operation.has_target else []), *(["[TEXT]"] if operation.arguments is not None else []))
    )
    help = operation.chat_help or operation.summary[0].lower() + operation.summary[1:].removesuffix(".")

    async def run(call: CommandCall, *, use_cases: UseCases) -> BotReply:
        return await _run_command(operation, use_cases, call)

    return BotCommand(run, usage, help)
