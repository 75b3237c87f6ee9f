"""The actions of buttons. Who may do them is decided at the press."""

from collections.abc import Mapping
from functools import partial

from sm.core.capability_parts import capability_parts
from sm.core.labels import label
from sm.kernel import OperationCall
from sm.operations import Operation
from sm.requests.answers import RequestReply
from sm.telegram import card_steps
from sm.telegram.command_call import CommandCall, PressHandler
from sm.telegram.commands import answer_request
from sm.telegram.ended_sessions import press_restore, press_unarchive
from sm.telegram.replies import BotReply
from sm.telegram.views import press_list


async def press_approve(call: CommandCall) -> BotReply:
    return await answer_request(call, call.rest, RequestReply(True))


async def press_deny(call: CommandCall) -> BotReply:
    return await answer_request(call, call.rest, RequestReply(False))


async def press_kill(call: CommandCall) -> BotReply:
    killed = await call.services.sessions.kill(
        call.caller, call.rest, call.key, force=False, tree=False, is_connected=lambda: True
    )
    return BotReply("\n".join(f"{label(session)} was killed" for session in killed) or "already ended")


def _operation_presses() -> dict[str, PressHandler]:
    """The buttons of operations of capabilities."""
    operations = [o for part in capability_parts("operations") for o in part.OPERATIONS]
    return {o.button: partial(_press_operation, o) for o in operations if o.button}


async def _press_operation(operation: Operation, call: CommandCall) -> BotReply:
    use_case = call.services.use_cases[operation]
    arguments = None if operation.arguments is None else operation.arguments()
    result = await use_case(OperationCall(call.caller, call.rest, arguments, call.key))
    return BotReply("Done." if operation.done is None else operation.done(result))


BUTTONS: Mapping[str, PressHandler] = {
    "approve": press_approve,
    "deny": press_deny,
    "reason": card_steps.press_reason,
    "option": card_steps.press_option,
    "tick": card_steps.press_tick,
    "done": card_steps.press_done,
    "page": card_steps.press_page,
    "again": card_steps.press_again,
    "list": press_list,
    "kill": press_kill,
    "unarchive": press_unarchive,
    "restore": press_restore,
    **_operation_presses(),
}
