"""The actions of buttons. Who may do them is decided at the press."""

from collections.abc import Mapping

from sm.core.capability_parts import capability_operations
from sm.core.labels import label
from sm.kernel import UseCases
from sm.operations import Operation
from sm.requests.answers import RequestReply
from sm.services import Requests, Sessions
from sm.telegram.command_call import CommandCall, PressHandler
from sm.telegram.commands import answer_request
from sm.telegram.ended_sessions import press_restore, press_unarchive
from sm.telegram.operation_commands import run_operation
from sm.telegram.replies import BotReply
from sm.telegram.views import press_list


async def press_approve(call: CommandCall, *, requests: Requests) -> BotReply:
    return await answer_request(call, requests, call.rest, RequestReply(True))


async def press_deny(call: CommandCall, *, requests: Requests) -> BotReply:
    return await answer_request(call, requests, call.rest, RequestReply(False))


async def press_kill(call: CommandCall, *, sessions: Sessions) -> BotReply:
    killed = await sessions.kill(
        call.caller, call.rest, call.key, force=False, tree=False, is_connected=lambda: True
    )
    return BotReply("\n".join(f"{label(session)} was killed" for session in killed) or "already ended")


def _operation_press(operation: Operation) -> PressHandler:
    async def press(call: CommandCall, *, use_cases: UseCases) -> BotReply:
        return await run_operation(operation, use_cases, call, call.rest, {})

    return press


BUTTONS: Mapping[str, PressHandler] = {
    "approve": press_approve,
    "deny": press_deny,
    "list": press_list,
    "kill": press_kill,
    "unarchive": press_unarchive,
    "restore": press_restore,
    **{o.button: _operation_press(o) for o in capability_operations() if o.button},
}
"""All buttons but those of `CardSteps`."""
