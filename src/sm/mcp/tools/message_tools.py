"""The tools that send messages."""

from dataclasses import replace

from sm.core.messages import Message
from sm.core.requests import Request
from sm.core.states import SENT_MODES, MessageMode, MessageState, TextUse
from sm.core.text import MESSAGE_MAX
from sm.core.wording import outcome
from sm.errors import SmError
from sm.mcp.results import refusal
from sm.mcp.schemas import arguments, choice, flag, number, result, text
from sm.mcp.tool import Result, ToolCall, ToolTable
from sm.services import Messages, Waits

tools = ToolTable()

_WAIT_S = 5.0


@tools.tool(
    arguments(
        {"session_id": text(200), "message": text(MESSAGE_MAX)},
        mode=choice(SENT_MODES, "auto by default; idle: once idle; urgent: interrupts it."),
        wait_s=number(0, 30, default=5),
        answer=flag(),
    ),
    result(
        status="string",
        message_id="integer",
        session_id="string",
        delivered_at="string",
        message_length="integer",
        reason="string",
        evidence="string",
        request_id="string",
        duration_ms="number",
    ),
)
async def send_message(call: ToolCall, *, messages: Messages, waits: Waits) -> Result:
    """Message an agent, parent or operator. It answers a child's only open question.
    Example: {"session_id": "1a2b3c4d", "message": "Use JWT"}"""
    values = call.values
    mode = MessageMode(values.get("mode", MessageMode.AUTO))
    use = None if "answer" not in values else TextUse.ANSWER if values["answer"] else TextUse.MESSAGE
    sent = await messages.send(
        call.caller, values["session_id"], values["message"], mode, None, call.key, use
    )
    done = sent.done
    if isinstance(done, Message):
        done = await waits.message(
            call.caller,
            done,
            call.exchange.hold,
            values.get("wait_s", 0 if done.session_id is None else _WAIT_S),
            settled="wait_s" in values,
        )
    return {**_sent(done, len(values["message"])), "unarchived": sent.unarchived or None}


@tools.tool(
    arguments({"message": text(MESSAGE_MAX)}, recursive=flag("All descendants.")),
    result(sent="array", duration_ms="number"),
)
async def broadcast(call: ToolCall, *, messages: Messages, waits: Waits) -> Result:
    """Send a text to all your live children. Example: {"message": "The API changed"}"""
    caller, text = call.caller, call.values["message"]
    key = call.key
    sent: list[tuple[str, Message | Request | SmError]] = []
    for session in messages.audience(caller, recursive=bool(call.values.get("recursive"))):
        own_key = key and replace(key, text=f"{key.text}/{session.id}")
        done: Message | Request | SmError
        try:
            one = await messages.send(
                caller, session.id, text, MessageMode.AUTO, None, own_key, TextUse.MESSAGE
            )
            done = one.done
        except SmError as error:
            done = error
        sent.append((session.id, done))
    ids = {message.id for _, message in sent if isinstance(message, Message)}
    await call.exchange.hold(lambda: not waits.are_open(ids), _WAIT_S)
    results = []
    for session_id, done in sent:
        if isinstance(done, Message):
            done = await waits.message(caller, done, call.exchange.hold, 0)
        if isinstance(done, SmError):
            results.append({"session_id": session_id, **refusal(done, call.tools)})
        else:
            results.append(_sent(done, len(text)))
    return {"sent": results}


def _sent(done: Message | Request, length: int) -> Result:
    if isinstance(done, Request):
        return {
            "status": MessageState.SUBMITTED,
            "session_id": done.session_id,
            "delivered_at": done.state_at,
            "message_length": length,
            "reason": outcome(done),
            "evidence": f"answered {done.name}",
            "request_id": done.name,
        }
    return {
        "status": done.state,
        "message_id": done.id,
        "session_id": done.session_id,
        "delivered_at": done.submitted_at,
        "message_length": length,
        "reason": done.reason,
        "evidence": done.evidence,
    }
