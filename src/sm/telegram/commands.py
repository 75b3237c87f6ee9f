"""The commands of the bot, each on the same use case as the command of `sm` with its name."""

import os
from collections.abc import Mapping
from difflib import get_close_matches

from sm.core.labels import label, short_label
from sm.core.models import SpawnRequest
from sm.core.requests import Request
from sm.core.states import MessageMode
from sm.core.telegram_model import session_object
from sm.core.text import folded
from sm.core.wording import outcome
from sm.errors import IllegalState, UnknownAgentType, UsageError
from sm.operations import DoorNames
from sm.operations.agent_operations import READ_OUTPUT, SHOW_PROGRESS, SUMMARIZE
from sm.operations.event_operations import SHOW_EVENTS
from sm.operations.list_operations import LIST_CHILDREN, LIST_SESSIONS
from sm.operations.message_operations import SEND
from sm.operations.request_operations import ANSWER, APPROVE, DENY, LIST_REQUESTS
from sm.operations.session_operations import ARCHIVE, INTERRUPT, KILL, SHOW_STATUS, SPAWN, UNARCHIVE
from sm.requests.answers import RequestReply
from sm.services import Authorizer, Interrupts, Messages, Reads, Records, Requests, Sessions
from sm.telegram import preferences, views
from sm.telegram.command_call import BotCommand, CommandCall, Handler
from sm.telegram.ended_sessions import offer, offer_instead
from sm.telegram.operation_commands import operation_commands
from sm.telegram.replies import BotReply, NewButton

_CONFIRM_S = 60.0


async def send(call: CommandCall, *, messages: Messages, store: Reads, authorizer: Authorizer) -> BotReply:
    reference, text = call.one_and_text()
    return await send_text(call, reference, text, messages=messages, store=store, authorizer=authorizer)


async def send_text(
    call: CommandCall, reference: str, text: str, *, messages: Messages, store: Reads, authorizer: Authorizer
) -> BotReply:
    """Send a message to a session, as `sm send` does. The outcome of the message is the answer.

    To restore a session whose process is gone, a button is offered.
    """
    session = authorizer.find(call.caller, reference)
    try:
        sent = await messages.send(call.caller, session.id, text, MessageMode.AUTO, None, call.key)
    except IllegalState as refusal:
        now = store.sessions.get(session.id)
        if now is None or now.exit is None:
            raise
        return offer(now, refusal.message, text)
    done = sent.done
    if isinstance(done, Request):
        return BotReply(f"{done.name}: {outcome(done)}", about=session_object(done.session_id))
    words = f"Unarchived {label(session)}" if sent.unarchived else ""
    return BotReply(words, about=session_object(session.id), watched=done.id)


async def spawn(call: CommandCall, *, sessions: Sessions, authorizer: Authorizer) -> BotReply:
    agent_type, prompt = call.one_and_text()
    wanted = SpawnRequest(
        agent_type,
        prompt=prompt,
        workspace=call.suffix or None,
        current_dir=os.environ.get("HOME", "/"),
        environment=await sessions.shell_environment(call.caller),
    )
    try:
        done = await sessions.spawn(call.caller, wanted, call.key, None, lambda: True)
    except UnknownAgentType as unknown:
        return offer_instead(authorizer, call, agent_type, prompt, unknown)
    session = done.session
    warnings = "".join(f"\nwarning: {folded(warning)}" for warning in done.warnings)
    said = f"Started {label(session)} ({session.id}): {session.status}{warnings}"
    return BotReply(said, about=session_object(session.id))


async def interrupt(call: CommandCall, *, interrupts: Interrupts) -> BotReply:
    session = call.session(INTERRUPT.audience)
    await interrupts.interrupt(call.caller, session.id, call.key)
    return BotReply(f"Interrupted {short_label(session)}", about=session_object(session.id))


async def kill(call: CommandCall) -> BotReply:
    session = call.session(KILL.audience)
    text = f"Kill {label(session)} ({session.id}, {session.status})? The button works for a minute."
    button = NewButton(f"Kill {label(session)}", f"kill {session.id}")
    return BotReply(text, buttons=[[button]], buttons_s=_CONFIRM_S)


async def approve(call: CommandCall, *, requests: Requests) -> BotReply:
    if len(call.words) != 1:
        raise call.usage()
    return await answer_request(call, requests, call.words[0], RequestReply(True))


async def deny(call: CommandCall, *, requests: Requests) -> BotReply:
    reference, *why = call.rest.split(maxsplit=1) or [""]
    if not reference:
        raise call.usage()
    return await answer_request(
        call, requests, reference, RequestReply(False, message=why[0] if why else None)
    )


async def answer(call: CommandCall, *, requests: Requests) -> BotReply:
    reference, text = call.one_and_text()
    return await answer_request(call, requests, reference, RequestReply(True, (text,)))


async def answer_request(
    call: CommandCall, requests: Requests, reference: str, reply: RequestReply
) -> BotReply:
    """Answer a request, as `sm approve`, `sm deny` and `sm answer` do."""
    done = await requests.answer(call.caller, reference, reply, call.key)
    return BotReply(f"{done.name}: {outcome(done)}", about=session_object(done.session_id))


async def archive(call: CommandCall, *, records: Records) -> BotReply:
    return await _archive(call, records, archived=True)


async def unarchive(call: CommandCall, *, records: Records) -> BotReply:
    return await _archive(call, records, archived=False)


async def _archive(call: CommandCall, records: Records, *, archived: bool) -> BotReply:
    session = call.session(ARCHIVE.audience)
    done = await records.archive(call.caller, session.id, call.key, archived=archived)
    verb = "Archived" if archived else "Unarchived"
    return BotReply(f"{verb} {label(done)}", about=session_object(done.id))


async def help_text(call: CommandCall) -> BotReply:
    lines = [f"/{name} {command.usage}".rstrip() + f" - {command.help}" for name, command in COMMANDS.items()]
    lines.append("ID is an id, a name or the beginning of an id.")
    lines.append("In a reply to a message about a session, or in its topic, leave it out.")
    lines.append("A plain text there is a message to the session.")
    return BotReply("\n".join(lines))


def _named(*commands: tuple[Handler, DoorNames]) -> dict[str, BotCommand]:
    """The commands by their names, with the words of their operations."""
    return {o.chat.split()[0]: BotCommand(run, o.chat_form, o.chat_help) for run, o in commands}


COMMANDS: Mapping[str, BotCommand] = {
    **_named(
        (views.list_sessions, LIST_SESSIONS),
        (views.status, SHOW_STATUS),
        (views.children, LIST_CHILDREN),
        (views.progress, SHOW_PROGRESS),
        (views.what, SUMMARIZE),
        (views.output, READ_OUTPUT),
        (views.events, SHOW_EVENTS),
        (views.requests, LIST_REQUESTS),
        (send, SEND),
        (spawn, SPAWN),
        (interrupt, INTERRUPT),
        (kill, KILL),
        (approve, APPROVE),
        (deny, DENY),
        (answer, ANSWER),
    ),
    "follow": BotCommand(preferences.follow, "ID [off]", "report its checkpoints, notes and idle times too"),
    "mute": BotCommand(
        preferences.mute, "[ID] [1h | off]", "report without a sound, all sessions or one, for an hour"
    ),
    **_named(
        (archive, ARCHIVE),
        (unarchive, UNARCHIVE),
    ),
    **operation_commands(),
    "help": BotCommand(help_text, "", "show the commands"),
}
COMMAND_MENU = [(name, command.help) for name, command in COMMANDS.items()]


def unknown_command(name: str) -> UsageError:
    near = get_close_matches(name, COMMANDS, 1)
    return UsageError(f"unknown command: /{folded(name, 40)}", f"/{near[0]}" if near else "/help")
