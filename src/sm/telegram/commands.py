"""The commands of the bot, each on the same use case as the command of `sm` with its name."""

import dataclasses
import os
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from sm.core.capability_parts import capability_operations
from sm.core.durations import seconds_in
from sm.core.labels import label, short_label
from sm.core.lifecycle import is_ended
from sm.core.models import RequestKey, Session, SpawnRequest
from sm.core.requests import Request
from sm.core.states import MessageMode
from sm.core.telegram_model import session_object
from sm.core.text import folded
from sm.core.wording import outcome
from sm.errors import IllegalState, NotFound, UnknownAgentType, UsageError
from sm.kernel import OperationCall, UseCases
from sm.operations import Operation
from sm.policy.access import Action
from sm.requests.answers import RequestReply
from sm.services import (
    Authorizer,
    Interrupts,
    Messages,
    Reads,
    Records,
    Requests,
    Restorer,
    Sessions,
    Telegram,
)
from sm.telegram import views
from sm.telegram.command_call import BotCommand, CommandCall
from sm.telegram.replies import BotReply, NewButton
from sm.telegram.text_outcomes import outcome_words

_OFFER_S = 3600.0
_CONFIRM_S = 60.0
_OFF = "off"
_DURATION = re.compile(r"[1-9][0-9]{0,2}[mhd]")
_DEFAULT = "1h"


def offer(session: Session, words: str, text: str) -> BotReply:
    """Offer to continue a session whose process is gone. `words`: why that is needed; `text`: for the session."""
    buttons = [[NewButton("Restore and send", f"restore {session.id} {text}")]]
    if session.archived:
        buttons.append([NewButton("Unarchive only", f"unarchive {session.id}")])
    return BotReply(words, buttons=buttons, buttons_s=_OFFER_S)


def offer_instead(
    authorizer: Authorizer, call: CommandCall, name: str, text: str, unknown: UnknownAgentType
) -> BotReply:
    """The reply to `/new` with a name that is no agent type: that of a session that has ended is offered.

    Raises `unknown` if no session has the name, and UsageError for a session that works.
    """
    try:
        session = authorizer.find(call.caller, name)
    except NotFound:
        raise unknown from None
    if not is_ended(session.status) or session.exit is None:
        raise UsageError(
            f"{label(session)} is a session, which is {session.status}", f"/send {name[:80]} TEXT"
        )
    archived = " and is archived" if session.archived else ""
    words = (
        f"{label(session)} has ended ({session.status}){archived}. Restore it to go on with its conversation."
    )
    return offer(session, words, text)


async def press_unarchive(call: CommandCall, *, records: Records) -> BotReply:
    """`unarchive ID`"""
    done = await records.archive(call.caller, call.rest, call.key, archived=False)
    return BotReply(f"Unarchived {label(done)}")


async def press_restore(call: CommandCall, *, restorer: Restorer, messages: Messages) -> BotReply:
    """`restore ID TEXT`: restore the session, and send it the text."""
    reference, text = call.one_and_text()
    key = call.key.text
    restored = await restorer.restore(
        call.caller, reference, RequestKey(f"{key}:restore", "restore"), tree=False
    )
    (session,) = restored.sessions
    lost = "".join(f" {loss[:1].upper()}{loss[1:]}." for _, loss in restored.losses)
    sending = RequestKey(f"{key}:send", "send")
    sent = await messages.send(call.caller, session.id, text, MessageMode.AUTO, None, sending)
    done = sent.done
    if isinstance(done, Request):
        return BotReply(f"Restored {label(session)}.{lost} {done.name}: {outcome(done)}")
    return BotReply(f"Restored {label(session)}.{lost} {outcome_words(done, session)}", watched=done.id)


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
    usage = " ".join(
        (*(["ID"] if operation.has_target else []), *(["[TEXT]"] if operation.arguments is not None else []))
    )
    help = operation.summary[0].lower() + operation.summary[1:].removesuffix(".")

    async def run(call: CommandCall, *, use_cases: UseCases) -> BotReply:
        return await _run_command(operation, use_cases, call)

    return BotCommand(run, usage, help)


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
    session = call.session(Action.INTERRUPT)
    await interrupts.interrupt(call.caller, session.id, call.key)
    return BotReply(f"Interrupted {short_label(session)}", about=session_object(session.id))


async def kill(call: CommandCall) -> BotReply:
    session = call.session(Action.KILL)
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
    session = call.session(Action.ARCHIVE)
    done = await records.archive(call.caller, session.id, call.key, archived=archived)
    verb = "Archived" if archived else "Unarchived"
    return BotReply(f"{verb} {label(done)}", about=session_object(done.id))


async def follow(call: CommandCall, *, telegram: Telegram, authorizer: Authorizer) -> BotReply:
    """`/follow ID`, `/follow ID off`"""
    words = [word for word in call.words if word != _OFF]
    reference = words[0] if words else call.shown
    if reference is None or len(words) > 1:
        raise call.usage()
    session = authorizer.find(call.caller, reference)
    follows = _OFF not in call.words
    await telegram.follow(call.place.chat_id, session.id, follows=follows)
    said = (
        f"This chat follows {label(session)}: its checkpoints, notes and idle times are reported too"
        if follows
        else f"This chat no longer follows {label(session)}"
    )
    return BotReply(said, about=session_object(session.id))


async def mute(call: CommandCall, *, telegram: Telegram, authorizer: Authorizer) -> BotReply:
    """`/mute`, `/mute ID`, `/mute 30m`, `/mute ID 2d`, `/mute ID off`"""
    times = [word for word in call.words if word == _OFF or _DURATION.fullmatch(word)]
    words = [word for word in call.words if word not in times]
    if len(times) > 1 or len(words) > 1:
        raise call.usage()
    reference = words[0] if words else call.shown
    session = None if reference is None else authorizer.find(call.caller, reference)
    time = times[0] if times else _DEFAULT
    seconds = None if time == _OFF else seconds_in(time)
    await telegram.mute(call.caller, call.place.chat_id, None if session is None else session.id, seconds)
    what = "all sessions" if session is None else label(session)
    said = (
        f"Reports about {what} ring again"
        if seconds is None
        else f"Reports about {what} arrive without a sound for {time}. Requests and errors still ring."
    )
    return BotReply(said, about=None if session is None else session_object(session.id))


async def help_text(call: CommandCall) -> BotReply:
    lines = [f"/{name} {command.usage}".rstrip() + f" - {command.help}" for name, command in COMMANDS.items()]
    lines.append("ID is an id, a name or the beginning of an id.")
    lines.append("In a reply to a message about a session, or in its topic, leave it out.")
    lines.append("A plain text there is a message to the session.")
    return BotReply("\n".join(lines))


COMMANDS: Mapping[str, BotCommand] = {
    "list": BotCommand(views.list_sessions, "[WORKSPACE] [all]", "list sessions; all: also ended ones"),
    "status": BotCommand(views.status, "[ID]", "show a session, or the counts of all"),
    "subagents": BotCommand(views.children, "ID", "list the sessions below a session"),
    "progress": BotCommand(views.progress, "ID", "show tokens, cost and the newest checkpoint"),
    "what": BotCommand(views.what, "ID", "summarize a session in a few sentences"),
    "output": BotCommand(views.output, "ID [LINES]", "show the last lines of the terminal"),
    "events": BotCommand(views.events, "[ID] [COUNT]", "show the newest events"),
    "requests": BotCommand(views.requests, "", "list the open requests"),
    "send": BotCommand(send, "ID TEXT", "send a message to a session"),
    "new": BotCommand(spawn, "TYPE TEXT", "start an agent; in a workspace: /new@WORKSPACE"),
    "interrupt": BotCommand(interrupt, "ID", "interrupt a session"),
    "kill": BotCommand(kill, "ID", "end a session, after a button"),
    "approve": BotCommand(approve, "rN", "approve a request"),
    "deny": BotCommand(deny, "rN [WHY]", "deny a request"),
    "answer": BotCommand(answer, "rN TEXT", "answer a question"),
    "follow": BotCommand(follow, "ID [off]", "report its checkpoints, notes and idle times too"),
    "mute": BotCommand(mute, "[ID] [1h | off]", "report without a sound, all sessions or one, for an hour"),
    "archive": BotCommand(archive, "ID", "hide an ended session"),
    "unarchive": BotCommand(unarchive, "ID", "show a hidden session again"),
    **operation_commands(),
    "help": BotCommand(help_text, "", "show the commands"),
}
COMMAND_MENU = [(name, command.help) for name, command in COMMANDS.items()]


def unknown_command(name: str) -> UsageError:
    near = get_close_matches(name, COMMANDS, 1)
    return UsageError(f"unknown command: /{folded(name, 40)}", f"/{near[0]}" if near else "/help")
