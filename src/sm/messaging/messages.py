"""Sends messages between callers, and reads them."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence

from sm.core.dataclass import dataclass
from sm.core.labels import name_to_type, short_label
from sm.core.lifecycle import is_live
from sm.core.messages import IN_OPERATORS_INBOX, SM_ITSELF, Message
from sm.core.models import Caller, RequestKey, Session
from sm.core.pauses import PAUSED
from sm.core.reference import session_word
from sm.core.requests import Answer, Request
from sm.core.states import CallerKind, MessageMode, MessageState, NoticeKind, RequestKind, TextUse
from sm.core.statuses import Status
from sm.core.text import MESSAGE_MAX, render_line, validate_text, with_own_lines
from sm.core.timestamps import later
from sm.core.wording import quote_session, sender_label
from sm.errors import AnswersQuestion, IllegalState, LimitReached, UsageError
from sm.messaging.holds import hold_reason
from sm.operations.access_rules import REPORT
from sm.operations.hints import Hint, Use
from sm.operations.message_operations import SEND, SEND_COMMAND, SEND_COMPACT, SHOW_MESSAGE
from sm.operations.request_operations import SEE_REQUESTS
from sm.operations.session_operations import ARCHIVE, ATTACH_FILES, INTERRUPT, RESTORE, SHOW_STATUS
from sm.policy.relations import is_unrestricted, may
from sm.providers.base import InputMethod, Provider
from sm.requests.answers import decide, resolve_options
from sm.requests.dialogs import Dialogs
from sm.sessions.acknowledgements import acknowledge
from sm.sessions.attachments import NO_FILES, Attachers, Attachment
from sm.sessions.authorizer import Authorizer
from sm.state.notices import Notices
from sm.state.part_holds import held_reason
from sm.state.quota import Quota
from sm.state.request_steps import open_of
from sm.state.session_steps import set_archived
from sm.store import Store, Transaction
from sm.store.message_rows import no_message

TTL_S = 24 * 3600.0
"""The default time until a queued message expires."""
NO_TTL = math.inf
"""The `ttl_s` of a message that never expires."""
QUEUED_MAX = 1_000
"""The limit per recipient: a recipient that never reads must not fill the disk."""
LOGGED_MAX = 2_000
"""The characters of each text that a log shows."""

_QUESTION_MAX = 80
"""The characters of a question that the refusal of a text shows."""

_UNARCHIVED = " unarchived"
"""The end of the stored result of a send that unarchived the session."""
_NUMBER_WIDTH = 10_000_000_000  # so that a header with any later number fits


@dataclass(frozen=True, slots=True)
class SentText:
    """A stored message, or the request that a sent text answered."""

    done: Message | Request
    unarchived: bool = False
    """The session was archived, and is shown in lists again."""


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """The use cases of messages. `Authorizer.find` checks the permissions of callers."""

    _store: Store
    _authorizer: Authorizer
    _notices: Notices
    _quota: Quota
    _providers: Mapping[str, Provider]
    _dialogs: Dialogs
    _attachers: Attachers

    # Sending

    async def send(
        self,
        caller: Caller,
        reference: str,
        text: str,
        mode: MessageMode,
        ttl_s: float | None,
        key: RequestKey | None,
        use: TextUse | None = None,
        request: str | None = None,
        files: Sequence[str] = (),
    ) -> SentText:
        """Store a message for the session that `reference` names, or answer its one open question with the text.

        For a session, `operator` names the operator, who gets the message in the inbox.

        `use`: the sender's wish, or None to answer the question if there is one. `request`: the name of the only
        question that TextUse.ANSWER may answer.

        `files`: the ids of uploaded files. A text with files is a message, never an answer or a command.

        A text that is a command of the agent CLI answers no question. It needs a permission of its own.
        An urgent message interrupts a session with a terminal input, so the caller needs the permission to interrupt.
        A message unarchives a session whose process lives, if the caller may archive it.

        Raises InvalidText, NotFound, NotPermitted, LimitReached, RateLimited; IllegalState when the message cannot
        arrive, when the answered dialog takes no answer, or when the text must answer and cannot; AnswersQuestion.
        """
        if session_word(reference) == CallerKind.OPERATOR and caller.session_id is not None:
            if files:
                self._authorizer.require(caller, ATTACH_FILES)
            return SentText(await self._send_to_operator(caller, text, mode, ttl_s, key, use))
        target = self._authorizer.find(caller, reference, SEND.audience)
        command = None
        if files:
            if use is TextUse.ANSWER:
                raise UsageError("files: an answer takes no files", "send the text as a message: --message")
            use = TextUse.MESSAGE
        elif use is not TextUse.ANSWER:
            command = self._command(caller, reference, target, text, mode)
        if command is not None:
            text, mode, use = command, MessageMode.COMMAND, TextUse.MESSAGE
        self.check_mode(caller, target, mode)
        words = _message_text(text)
        if command is None:
            for question in open_of(self._store.mail.open.requests, target.id, [RequestKind.QUESTION]):
                await self._dialogs.refresh(question.id)
        attachment = await self._attachment(caller, target, files, key)
        try:
            async with self._store.transaction(caller, key) as tx:
                if tx.replayed is None:
                    done = await self._answer(tx, caller, target.id, words, use, request)
                    sent = done or await self.enqueue(tx, caller, target.id, words, mode, ttl_s, attachment)
                    if done is None:
                        tx.remember(f"{sent.done.id}{_UNARCHIVED if sent.unarchived else ''}")
                else:
                    earlier = await _earlier_result(tx, tx.replayed.removesuffix(_UNARCHIVED))
                    sent = SentText(earlier, tx.replayed.endswith(_UNARCHIVED))
        finally:
            await attachment.finish()
        if sent.unarchived:
            self.record_unarchived(caller, target)
        if isinstance(sent.done, Request):
            return SentText(await self._dialogs.wait_until_taken(sent.done, caller))
        return sent

    async def _attachment(
        self, caller: Caller, target: Session, files: Sequence[str], key: RequestKey | None
    ) -> Attachment:
        """The files, where the agent can read them. A repeated request, whose files are used, has none."""
        try:
            attachment = self._attachers.attach(caller, target, files)
            try:
                await attachment.place()
            except BaseException:
                await attachment.finish()
                raise
        except UsageError:
            async with self._store.transaction(caller, key) as tx:
                earlier = tx.replayed
            if earlier is None:
                raise
            return NO_FILES
        return attachment

    def _command(
        self, caller: Caller, reference: str, target: Session, text: str, mode: MessageMode
    ) -> str | None:
        """Read a text that is a command of the agent CLI, which needs a permission of its own. None for other texts."""
        command = self._providers[target.provider].input_command(text)
        if command is None:
            return None
        if mode is MessageMode.URGENT:
            raise UsageError(
                f"the command {command.text} waits until the session is idle and cannot be urgent",
                Hint(Use(INTERRUPT, name_to_type(target))),
            )
        by_parent = command.by_parent and caller.session_id == target.parent_id
        self._authorizer.find(caller, reference, SEND_COMPACT if by_parent else SEND_COMMAND)
        return command.text

    async def _answer(
        self,
        tx: Transaction,
        caller: Caller,
        session_id: str,
        words: str,
        use: TextUse | None,
        request: str | None,
    ) -> SentText | None:
        """Answer the one open question of the session, if the text is for it."""
        session = tx.session(session_id)
        asked = None if use is TextUse.MESSAGE else self._answered_by(tx, caller, session)
        if asked is None or request not in (None, asked.name):
            if use is TextUse.ANSWER:
                raise _answers_nothing(session, request)
            return None
        if use is TextUse.ASK:
            raise _would_answer(session, asked)
        answer = Answer(True, resolve_options(asked, [words]))
        done = await decide(tx, self._dialogs, session, asked, answer, caller)
        tx.remember(asked.name)
        return SentText(done)

    def check_mode(self, caller: Caller, target: Session, mode: MessageMode) -> None:
        """Raise NotPermitted for an urgent message of a caller who may not interrupt the session."""
        input_method = self._providers[target.provider].input_of(target.agent_type)
        if mode is MessageMode.URGENT and input_method is not InputMethod.INBOX:
            self._authorizer.find(caller, target.id, INTERRUPT.audience)

    def takes_one_line(self, session: Session) -> bool:
        """True if a message to the session must be one line."""
        return self._providers[session.provider].input_of(session.agent_type) is InputMethod.TTY

    async def enqueue(
        self,
        tx: Transaction,
        caller: Caller,
        session_id: str,
        text: str,
        mode: MessageMode,
        ttl_s: float | None,
        attachment: Attachment = NO_FILES,
    ) -> SentText:
        """Queue a message in the transaction of a caller who may send it (`check_mode`).

        An archived session whose process lives is shown again. Call `record_unarchived` after the commit then.
        Raises InvalidText, LimitReached, RateLimited; IllegalState when the message cannot arrive.
        """
        words = _message_text(text)
        session = tx.session(session_id)
        unarchived = session.archived
        if unarchived:
            session = await self._unarchive(tx, caller, session)
        message = await self._queue(tx, caller, session, words, mode, ttl_s, attachment)
        return SentText(message, unarchived)

    def record_unarchived(self, caller: Caller, session: Session) -> None:
        """Write to the audit log that a message has unarchived the session."""
        self._authorizer.find(caller, session.id, ARCHIVE.audience)

    async def _send_to_operator(
        self,
        caller: Caller,
        text: str,
        mode: MessageMode,
        ttl_s: float | None,
        key: RequestKey | None,
        use: TextUse | None,
    ) -> Message:
        """Put a message of a session into the operator's inbox, where it stays until the operator takes it."""
        sender = self._authorizer.find(caller, "me", REPORT)
        if use is TextUse.ANSWER:
            raise IllegalState(
                "the operator has no question that a text can answer", Hint(Use(SEND, "operator", "TEXT"))
            )
        if ttl_s is not None:
            raise UsageError("a message to the operator does not expire", "leave out --ttl")
        words = _message_text(text)
        async with self._store.transaction(caller, key) as tx:
            if tx.replayed is not None:
                return await tx.mail.message(int(tx.replayed))
            unread = sum(m.sender != SM_ITSELF for m in self._store.mail.queued().get(None, ()))
            if unread >= QUEUED_MAX:
                raise LimitReached(
                    f"the operator has {unread} unread messages of sessions already",
                    "wait until the operator has read them: sm inbox --take",
                )
            await self._quota.check_message(tx, caller, tx.now)
            await self._quota.check_message_to_operator(tx, sender, tx.now)
            message = Message(
                id=tx.mail.new_id("messages"),
                session_id=None,
                sender=caller.name,
                mode=mode,
                state=MessageState.QUEUED,
                created_at=tx.now,
                state_at=tx.now,
                reason=IN_OPERATORS_INBOX,
            )
            tx.mail.add_message(message, words)
            session = tx.session(sender.id)
            await self._notices.report_operator_message(tx, session, message, words)
            tx.remember(str(message.id))
        return message

    def _answered_by(self, tx: Transaction, caller: Caller, session: Session) -> Request | None:
        """The one open question that a text of the parent or the operator answers; None without one."""
        if caller.session_id is not None and caller.session_id != session.parent_id:
            return None
        questions = open_of(tx.mail.open.requests, session.id, [RequestKind.QUESTION])
        if len(questions) != 1 or questions[0].has_proposed_answer or questions[0].cut:
            return None
        return questions[0] if len(questions[0].questions) == 1 else None

    async def _unarchive(self, tx: Transaction, caller: Caller, session: Session) -> Session:
        """Show a session in lists again that gets a message. Raises IllegalState."""
        if session.exit is not None:
            raise IllegalState(
                f"session {short_label(session)} has ended ({session.status}) and is archived:"
                " it cannot receive messages",
                Hint(Use(RESTORE, name_to_type(session))),
            )
        if not self._authorizer.filter_allowed(caller, ARCHIVE.audience, [session], self._store.sessions.get):
            raise IllegalState(
                f"session {short_label(session)} is archived: it cannot receive messages from you",
                "its parent and the operator can unarchive it",
            )
        return await set_archived(tx, session, archived=False)

    async def _queue(
        self,
        tx: Transaction,
        caller: Caller,
        session: Session,
        text: str,
        mode: MessageMode,
        ttl_s: float | None,
        attachment: Attachment,
    ) -> Message:
        if session.exit is not None:
            raise IllegalState(
                f"session {short_label(session)} has ended ({session.status}): it cannot receive messages",
                Hint(Use(RESTORE, name_to_type(session))),
            )
        method = self._providers[session.provider].input_of(session.agent_type)
        match method:
            case InputMethod.INBOX:
                why = _hold(tx, session) or "not taken from the inbox yet"
            case InputMethod.TTY:
                why = _hold(tx, session) or "not typed yet"
                sender = sender_label(caller.name, tx.find(caller.session_id))
                render_line(sender, _NUMBER_WIDTH, text)
            case InputMethod.LINK:
                why = _hold(tx, session) or "not sent yet"
            case InputMethod.COMPOSER:
                why = hold_reason(session, tx.mail.open, time.time(), tx.find) or "not typed yet"
        waiting = len(self._store.mail.queued().get(session.id, ()))
        if waiting >= QUEUED_MAX:
            raise LimitReached(
                f"session {short_label(session)} already has {waiting} waiting messages",
                Hint(Use(SHOW_STATUS, name_to_type(session))),
            )
        waits = mode in (MessageMode.IDLE, MessageMode.COMMAND) and session.status is not Status.IDLE
        if waits and method is not InputMethod.LINK:  # the program itself keeps it until the turn ends
            why = f"held until the session is idle: it is {session.status}"
        await self._quota.check_message(tx, caller, tx.now)
        message = Message(
            id=tx.mail.new_id("messages"),
            session_id=session.id,
            sender=caller.name,
            mode=mode,
            state=MessageState.QUEUED,
            created_at=tx.now,
            state_at=tx.now,
            reason=why,
            expires_at=None if ttl_s == NO_TTL else later(tx.now, TTL_S if ttl_s is None else ttl_s),
            own_lines=len(attachment.lines),
        )
        await attachment.use(tx, message.id)
        for follower in tx.followers:
            message = await follower.admit(tx, tx.find(caller.session_id), session, message)
        tx.mail.add_message(message, with_own_lines(text, attachment.lines))
        return message

    def audience(self, caller: Caller, *, recursive: bool) -> list[Session]:
        """The recipients of a broadcast: live children or descendants.

        For a caller that is no session, every live session that the caller may send to.
        """
        principal, tree = self._authorizer.principal(caller), self._authorizer.tree
        near: Iterable[Session] = self._store.sessions.values()
        if isinstance(principal, Session):
            near = tree.descendants(principal.id) if recursive else tree.children(principal.id)
        sessions = [s for s in near if may(tree.relation(principal, s), SEND.audience)]
        return [s for s in sessions if is_live(s.status) and s.exit is None and not s.archived]

    async def read(self, caller: Caller, message_id: int) -> Message:
        """A message from or to the caller, or from or to a session that the caller may read. Raises NotFound."""
        message = await self._store.mail.message(message_id)
        principal, sessions = self._authorizer.principal(caller), self._store.sessions
        ends = [sessions.get(end or "") for end in (message.sender, message.session_id)]
        relations = [self._authorizer.tree.relation(principal, end) for end in ends if end is not None]
        own = is_unrestricted(caller) or message.sender == caller.name
        if own or any(may(r, SHOW_MESSAGE.audience) for r in relations):
            return message
        raise no_message(message_id)

    async def acknowledge(self, caller: Caller, message: Message) -> None:
        """Drop the notice about an undelivered message: the answer has informed its sender."""
        occasion = f"message:{message.id}"
        undelivered = NoticeKind.UNDELIVERED
        session_ids = [] if message.session_id is None else [message.session_id]
        await acknowledge(
            self._store, caller, session_ids, lambda n: n.kind is undelivered and n.occasion == occasion
        )

    async def log(self, caller: Caller, session: Session | None, limit: int) -> list[tuple[Message, str]]:
        """The newest `limit` messages from and to a session that the caller may read, with their truncated texts.

        `session` is None for all messages of the caller; for the operator and for owners, all messages.
        """
        if session is not None:
            ends: list[str] | None = [session.id]
        else:
            ends = None if is_unrestricted(caller) else [caller.name]
        messages = await self._store.mail.messages(ends, limit)
        texts = await self._store.mail.texts([m.id for m in messages], LOGGED_MAX)
        return [(m, texts[m.id]) for m in messages]


def _message_text(text: str) -> str:
    """The text of a message as it is stored. Raises InvalidText, UsageError."""
    words = validate_text(text, "message", MESSAGE_MAX)
    if not words.strip():
        raise UsageError("the message is empty")
    return words


def _hold(tx: Transaction, session: Session) -> str | None:
    """Why a pause or a hold keeps back a new message to a session that reads no input box."""
    return PAUSED if session.paused is not None else held_reason(session, tx.find, tx.mail.open, None)


def _would_answer(session: Session, request: Request) -> AnswersQuestion:
    words = quote_session(session, request.questions[0].question, _QUESTION_MAX)
    return AnswersQuestion(
        f"this answers {request.name} {words}",
        Hint(Use(SEND, "--answer", "or", "--message", name_to_type(session))),
        request_id=request.name,
    )


def _answers_nothing(session: Session, request: str | None) -> IllegalState:
    """The refusal of a text that must answer a question. `request`: the only one that it may answer."""
    which = "no question that a text can answer" if request is None else f"no open question {request[:20]}"
    return IllegalState(f"session {short_label(session)} has {which}", SEE_REQUESTS)


async def _earlier_result(tx: Transaction, result: str) -> Message | Request:
    if result.startswith("r"):
        return await tx.mail.request(int(result[1:]))
    return await tx.mail.message(int(result))
