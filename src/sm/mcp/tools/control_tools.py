"""The tool that controls sessions."""

from collections.abc import Sequence

from sm.core.capability_parts import capability_operations
from sm.core.models import Session
from sm.errors import UsageError
from sm.kernel import OperationCall, UseCases
from sm.mcp.schemas import arguments, choice, flag, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.operations import session_operations as known
from sm.services import Authorizer, Interrupts, Records, Restorer, Sessions

tools = ToolTable()

_OF_CAPABILITIES = (o for o in capability_operations() if o.tool == known.KILL.tool)
_OPERATIONS = {
    o.tool_action: o for o in (known.INTERRUPT, *_OF_CAPABILITIES, known.KILL, known.RESTORE, known.ARCHIVE)
}
"""The operations that `control_session` has, by its action."""


@tools.tool(
    arguments(
        {"session_id": text(200), "action": choice(list(_OPERATIONS))},
        tree=flag("Also all descendants. Not for interrupt and archive."),
    ),
    result(sessions="array", failed="array", duration_ms="number"),
    destructive=True,
)
async def control_session(
    call: ToolCall,
    *,
    sessions: Sessions,
    records: Records,
    restorer: Restorer,
    interrupts: Interrupts,
    use_cases: UseCases,
    authorizer: Authorizer,
) -> Result:
    """Interrupt, pause, kill, restore or archive a descendant. kill ends its process, restore starts it.
    Example: {"session_id": "1a2b3c4d", "action": "interrupt"}"""
    caller, key = call.caller, call.key
    reference, action = call.values["session_id"], call.values["action"]
    tree, operation = call.values.get("tree", False), _OPERATIONS[action]
    if tree and operation.arguments is None:
        raise UsageError(f"{action} takes one session", "give tree only for pause, resume, kill and restore")
    match operation:
        case known.INTERRUPT:
            done = await interrupts.interrupt(caller, reference, key)
            return _changed([done.session])
        case known.KILL:
            killed = await sessions.kill(
                caller, reference, key, force=False, tree=tree, is_connected=call.exchange.is_connected
            )
            return _changed(killed)
        case known.RESTORE:
            target = authorizer.find(caller, reference)
            restored = await restorer.restore(
                caller, target.id, key, tree=tree, go_on=False, is_connected=call.exchange.is_connected
            )
            failed = [{"session_id": s, "message": error.message} for s, error in restored.failed]
            losses = [{"session_id": s, "message": loss} for s, loss in restored.losses]
            words = {"failed": failed or None, "losses": losses or None, "left": list(restored.left) or None}
            return {**_changed(restored.sessions), **words}
        case known.ARCHIVE:
            return _changed([await records.archive(caller, reference, key, archived=True)])
        case _:
            assert operation.arguments is not None
            given = operation.arguments(tree=tree)
            result = await use_cases[operation](OperationCall(caller, reference, given, key))
            return _changed(result.sessions)


def _changed(sessions: Sequence[Session]) -> Result:
    return {
        "sessions": [
            {
                "session_id": s.id,
                "name": s.display_name,
                "status": s.status,
                "paused": None if s.paused is None else s.paused.state,
                "archived": s.archived or None,
            }
            for s in sessions
        ]
    }
