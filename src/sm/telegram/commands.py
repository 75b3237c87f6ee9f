"""The commands of the bot, each on the same use case as the command of `sm` with its name."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from sm.core.attention import current_task
from sm.core.labels import label, short_label
from sm.core.lifecycle import is_ended
from sm.core.models import Caller, RequestKey, Session, SpawnRequest
from sm.core.requests import Request
from sm.core.states import MessageMode, MessageState, TrustLevel
from sm.core.telegram import session_object
from sm.core.text import folded
from sm.core.wording import outcome
from sm.errors import UsageError
from sm.policy.access import Action
from sm.requests.answers import RequestReply
from sm.services import Services, SessionFilter
from sm.telegram.cards import UNTRUSTED, session_tree
from sm.telegram.replies import BotReply, NewButton

_CONFIRM_S = 60.0
_SENT_WITHIN_S = 2.0
_OUTPUT_LINES, _OUTPUT_LINES_MAX = 40, 1000
_EVENTS, _EVENTS_MAX = 15, 200
_NUMBER_MAX_DIGITS = 4


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One command of one person. `rest` follows the command; `shown`: the session of the message replied to."""

    services: Services
    caller: Caller
    key: RequestKey
    name: str
    suffix: str
    """The word after `@`: a workspace, in `/new@SLUG`."""
    rest: str
    shown: str | None = None

    @property
    def words(self) -> list[str]:
        return self.rest.split()

    def usage(self) -> UsageError:
        command = COMMANDS[self.name]
        return UsageError(f"usage: /{self.name} {command.usage}")

    def session(self, action: Action = Action.SEE) -> Session:
        """The session that the first word names, else the one of the message replied to."""
        words = [word for word in self.words if not _is_count(word)]
        reference = words[0] if words else self.shown
        if reference is None:
            raise self.usage()
        return self.services.sessions.find(self.caller, reference, action)

    def count(self, default: int, most: int) -> int:
        """The number among the words, such as that of lines."""
        counts = [int(word) for word in self.words if _is_count(word)]
        return min(counts[-1], most) if counts else default

    def one_and_text(self) -> tuple[str, str]:
        """The first word, and the text after it."""
        first, *rest = self.rest.split(maxsplit=1)
        if not rest:
            raise self.usage()
        return first, rest[0]

    async def wait(self, condition: Callable[[], bool], wait_s: float) -> bool:
        return await self.services.store.wait_until(condition, wait_s)


def _is_count(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= _NUMBER_MAX_DIGITS


async def _open_requests(call: CommandCall) -> list[Request]:
    return await call.services.requests.list_requests(call.caller, all=False, limit=0)


async def _tasks(call: CommandCall, sessions: list[Session]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The current task and the names of the open requests of each session."""
    asked: dict[str, list[Request]] = {}
    for request in await _open_requests(call):
        if not request.has_proposed_answer:
            asked.setdefault(request.session_id, []).append(request)
    glances = await call.services.monitor.glances(sessions)
    tasks = {
        s.id: current_task(s, asked.get(s.id, []), glances[s.id].activity, glances[s.id].answer).text
        for s in sessions
    }
    return tasks, {session_id: [r.name for r in requests] for session_id, requests in asked.items()}


async def list_sessions(call: CommandCall) -> BotReply:
    words = call.words
    all = "all" in words
    slug = next((word for word in words if word != "all"), None)
    found = call.services.sessions.list_sessions(call.caller, SessionFilter(workspace=slug))
    sessions = [s for s in found if all or not is_ended(s.status)]
    tasks, waits = await _tasks(call, sessions)
    text = session_tree(sessions, tasks, waits, title="Sessions" if all else "Active Sessions")
    return BotReply(text, is_output=True, name="sessions")


async def status(call: CommandCall) -> BotReply:
    if not call.words and call.shown is None:
        return await _overview(call)
    session = call.session()
    tasks, waits = await _tasks(call, [session])
    sandboxed = session.effective_mode is TrustLevel.SANDBOXED
    own = f" {UNTRUSTED}" if sandboxed else ""
    lines = [
        f"{label(session)} ({session.id}): {session.status}, since {session.status_at}",
        f"reason: {folded(session.status_reason)}",
        f"task: {folded(tasks[session.id], 300)}{own}",
        f"mode: {session.effective_mode}, {session.mode}",
    ]
    if session.id in waits:
        lines.append(f"waits: {', '.join(waits[session.id])}")
    if session.completion_message:
        lines.append(f"result: {folded(session.completion_message)}{own}")
    return BotReply("\n".join(lines), about=session_object(session.id))


async def _overview(call: CommandCall) -> BotReply:
    counts: dict[str, int] = {}
    for session in call.services.sessions.list_sessions(call.caller, SessionFilter()):
        counts[session.status.value] = counts.get(session.status.value, 0) + 1
    lines = [f"{count} {status}" for status, count in sorted(counts.items())] or ["no sessions"]
    lines.append(f"{len(await _open_requests(call))} open requests")
    if call.caller.user is not None and call.caller.user.is_owner:
        lines += [f"trouble: {folded(trouble)}" for trouble in call.services.daemon.trouble()]
    return BotReply("\n".join(lines))


async def children(call: CommandCall) -> BotReply:
    session = call.session()
    sessions = call.services.sessions.descendants(call.caller, session.id)
    tasks, waits = await _tasks(call, sessions)
    text = session_tree(sessions, tasks, waits, title=f"Below {label(session)}")
    return BotReply(text, is_output=True, name="sessions", about=session_object(session.id))


async def output(call: CommandCall) -> BotReply:
    session = call.session(Action.READ)
    shown = await call.services.monitor.output(session, call.count(_OUTPUT_LINES, _OUTPUT_LINES_MAX))
    text = "\n".join(line.rstrip() for line in shown.lines).strip("\n")
    return BotReply(
        text or "(no output)",
        is_output=True,
        name=f"{session.display_name}-output",
        about=session_object(session.id),
    )


async def progress(call: CommandCall) -> BotReply:
    session = call.session()
    may_read = call.services.sessions.may_read(call.caller, session)
    shown = await call.services.monitor.progress(session, 1, may_read=may_read)
    lines = [f"{label(session)} ({session.id}): {shown['status']}"]
    for name, key in (
        ("elapsed", "elapsed_seconds"),
        ("tokens", "tokens_used"),
        ("cost in USD", "cost_usd"),
        ("context in %", "context_percent"),
        ("tools used", "total_tools"),
        ("done in %", "completion_percentage"),
        ("activity", "current_activity"),
    ):
        if shown.get(key) is not None:
            unit = " s" if key == "elapsed_seconds" else ""
            lines.append(f"{name}: {folded(str(shown[key]), 300)}{unit}")
    lines += [f"checkpoint: {folded(str(c['message']), 300)}" for c in shown["checkpoints"]]
    return BotReply("\n".join(lines), about=session_object(session.id))


async def events(call: CommandCall) -> BotReply:
    names_session = call.shown is not None or any(not _is_count(word) for word in call.words)
    reference = call.session().id if names_session else None
    scope = call.services.sessions.event_scope(call.caller, reference, None, recursive=False)
    found = await call.services.store.events(sessions=scope, limit=call.count(_EVENTS, _EVENTS_MAX))
    lines = [f"{event.timestamp[11:16]} {folded(event.message)}" for event in found]
    about = session_object(reference) if reference is not None else None
    return BotReply("\n".join(lines) or "no events", name="events", about=about)


async def requests(call: CommandCall) -> BotReply:
    found = await _open_requests(call)
    lines = []
    for request in found:
        session = call.services.store.sessions.get(request.session_id)
        who = request.session_id if session is None else label(session)
        what = request.text or request.tool or ""
        lines.append(f"{request.name} {request.kind} of {who}: {folded(what, 200)}")
    return BotReply("\n".join(lines) or "no open requests")


async def send(call: CommandCall) -> BotReply:
    reference, text = call.one_and_text()
    return await send_text(call, reference, text)


async def send_text(call: CommandCall, reference: str, text: str) -> BotReply:
    """Send a message to a session, as `sm send` does."""
    done = await call.services.messages.send(call.caller, reference, text, MessageMode.AUTO, None, call.key)
    if isinstance(done, Request):
        return BotReply(f"{done.name}: {outcome(done)}", about=session_object(done.session_id))
    message = await call.services.waits.message(call.caller, done, call.wait, _SENT_WITHIN_S)
    session = call.services.store.sessions.get(message.session_id or "")
    who = message.session_id if session is None else label(session)
    if message.state in (MessageState.SUBMITTED, MessageState.ACKNOWLEDGED):
        said = f"Input sent to {who}"
    else:
        reason = f" ({folded(message.reason)})" if message.reason else ""
        said = f"{message.state}{reason}, message {message.id} to {who}"
    return BotReply(said, about=session_object(message.session_id or ""))


async def spawn(call: CommandCall) -> BotReply:
    agent_type, prompt = call.one_and_text()
    wanted = SpawnRequest(
        agent_type,
        prompt=prompt,
        workspace=call.suffix or None,
        current_dir=os.environ.get("HOME", "/"),
        environment=dict(os.environ),
    )
    done = await call.services.sessions.spawn(call.caller, wanted, call.key, None, lambda: True)
    session = done.session
    warnings = "".join(f"\nwarning: {folded(warning)}" for warning in done.warnings)
    said = f"Started {label(session)} ({session.id}): {session.status}{warnings}"
    return BotReply(said, about=session_object(session.id))


async def interrupt(call: CommandCall) -> BotReply:
    session = call.session(Action.INTERRUPT)
    await call.services.interrupts.interrupt(call.caller, session.id, call.key)
    return BotReply(f"Interrupted {short_label(session)}", about=session_object(session.id))


async def kill(call: CommandCall) -> BotReply:
    session = call.session(Action.KILL)
    text = f"Kill {label(session)} ({session.id}, {session.status})? The button works for a minute."
    button = NewButton(f"Kill {label(session)}", f"kill {session.id}")
    return BotReply(text, buttons=[button], buttons_s=_CONFIRM_S)


async def approve(call: CommandCall) -> BotReply:
    if len(call.words) != 1:
        raise call.usage()
    return await answer_request(call, call.words[0], RequestReply(True))


async def deny(call: CommandCall) -> BotReply:
    reference, *why = call.rest.split(maxsplit=1) or [""]
    if not reference:
        raise call.usage()
    return await answer_request(call, reference, RequestReply(False, message=why[0] if why else None))


async def answer(call: CommandCall) -> BotReply:
    reference, text = call.one_and_text()
    return await answer_request(call, reference, RequestReply(True, (text,)))


async def answer_request(call: CommandCall, reference: str, reply: RequestReply) -> BotReply:
    """Answer a request, as `sm approve`, `sm deny` and `sm answer` do."""
    done = await call.services.requests.answer(call.caller, reference, reply, call.key)
    return BotReply(f"{done.name}: {outcome(done)}", about=session_object(done.session_id))


async def archive(call: CommandCall) -> BotReply:
    return await _archive(call, archived=True)


async def unarchive(call: CommandCall) -> BotReply:
    return await _archive(call, archived=False)


async def _archive(call: CommandCall, *, archived: bool) -> BotReply:
    session = call.session(Action.ARCHIVE)
    done = await call.services.records.archive(call.caller, session.id, call.key, archived=archived)
    verb = "Archived" if archived else "Unarchived"
    return BotReply(f"{verb} {label(done)}", about=session_object(done.id))


async def help_text(call: CommandCall) -> BotReply:
    lines = [f"/{name} {command.usage}".rstrip() + f" - {command.help}" for name, command in COMMANDS.items()]
    lines.append(
        "ID is an id, a name or the beginning of an id. In a reply to a message about a session, leave"
    )
    lines.append("it out. A plain text in such a reply is a message to the session.")
    return BotReply("\n".join(lines))


# Actions of buttons


async def press_approve(call: CommandCall) -> BotReply:
    return await answer_request(call, call.rest, RequestReply(True))


async def press_deny(call: CommandCall) -> BotReply:
    return await answer_request(call, call.rest, RequestReply(False))


async def press_option(call: CommandCall) -> BotReply:
    name, number = call.words
    request = await call.services.requests.find(call.caller, name)
    chosen = request.questions[0].options[int(number) - 1]
    return await answer_request(call, name, RequestReply(True, (chosen,)))


async def press_kill(call: CommandCall) -> BotReply:
    killed = await call.services.sessions.kill(
        call.caller, call.rest, call.key, force=False, tree=False, is_connected=lambda: True
    )
    return BotReply("\n".join(f"{label(session)} was killed" for session in killed) or "already ended")


async def press_pair(call: CommandCall) -> BotReply:
    done = await call.services.pairings.approve(call.caller, call.rest, None, None, call.key)
    return BotReply(f"Paired {done.user} ({folded(done.label, 80)}) as {done.level}")


async def press_refuse(call: CommandCall) -> BotReply:
    done = await call.services.pairings.deny(call.caller, call.rest, call.key)
    return BotReply(f"Denied {done.user} ({folded(done.label, 80)})")


Handler = Callable[[CommandCall], Awaitable[BotReply]]


@dataclass(frozen=True, slots=True)
class BotCommand:
    run: Handler
    usage: str
    help: str


COMMANDS: Mapping[str, BotCommand] = {
    "list": BotCommand(list_sessions, "[WORKSPACE] [all]", "list sessions; all: also ended ones"),
    "status": BotCommand(status, "[ID]", "show a session, or the counts of all"),
    "subagents": BotCommand(children, "ID", "list the sessions below a session"),
    "progress": BotCommand(progress, "ID", "show tokens, cost and the newest checkpoint"),
    "output": BotCommand(output, "ID [LINES]", "show the last lines of the terminal"),
    "events": BotCommand(events, "[ID] [COUNT]", "show the newest events"),
    "requests": BotCommand(requests, "", "list the open requests"),
    "send": BotCommand(send, "ID TEXT", "send a message to a session"),
    "new": BotCommand(spawn, "TYPE TEXT", "start an agent; in a workspace: /new@WORKSPACE"),
    "interrupt": BotCommand(interrupt, "ID", "interrupt a session"),
    "kill": BotCommand(kill, "ID", "end a session, after a button"),
    "approve": BotCommand(approve, "rN", "approve a request"),
    "deny": BotCommand(deny, "rN [WHY]", "deny a request"),
    "answer": BotCommand(answer, "rN TEXT", "answer a question"),
    "archive": BotCommand(archive, "ID", "hide an ended session"),
    "unarchive": BotCommand(unarchive, "ID", "show a hidden session again"),
    "help": BotCommand(help_text, "", "show the commands"),
}
COMMAND_MENU = [(name, command.help) for name, command in COMMANDS.items()]
BUTTONS: Mapping[str, Handler] = {
    "approve": press_approve,
    "deny": press_deny,
    "option": press_option,
    "kill": press_kill,
    "pair": press_pair,
    "refuse": press_refuse,
}


def unknown_command(name: str) -> UsageError:
    near = get_close_matches(name, COMMANDS, 1)
    return UsageError(f"unknown command: /{folded(name, 40)}", f"/{near[0]}" if near else "/help")
