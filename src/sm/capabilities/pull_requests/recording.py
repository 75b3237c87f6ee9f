"""Use cases of pull requests: keeps them, makes events of them, and sends their news to agents."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, assert_never

from sm.capabilities.pull_requests.agent_messages import typed_text
from sm.capabilities.pull_requests.model import (
    NAME_MAX,
    PULL_REQUESTS_MAX,
    REPORTS_MAX,
    URL_MAX,
    PullRequest,
    PullRequestState,
    ReportKind,
)
from sm.capabilities.pull_requests.operations import (
    RECORD,
    REPORT,
    SHOW,
    OpenPullRequest,
    PullRequestReport,
)
from sm.capabilities.pull_requests.tables import PART
from sm.core.dataclass import dataclass
from sm.core.labels import label, short_label
from sm.core.lines import plural
from sm.core.models import Caller, Session
from sm.core.states import EventType, MessageMode
from sm.core.text import is_folded, quoted, validate_text
from sm.core.wording import subject
from sm.errors import IllegalState, InvalidText, LimitReached, NotFound, UsageError
from sm.kernel import OperationCall
from sm.messaging import Messages
from sm.operations.hints import Hint, Use
from sm.sessions.authorizer import Authorizer
from sm.store import Store, Transaction
from sm.wire_types.pull_requests import PullRequestView, RecordedPullRequestView, ReportedPullRequestView

_URL = re.compile(r"https?://[!-~]+")
_NUMBER_MAX = 1_000_000_000
_OUTCOME = re.compile(r"[a-z_]{1,40}")


class PullRequestRecords:
    """Use cases of the pull requests of a session."""

    def __init__(
        self, store: Store, authorizer: Authorizer, messages: Messages, retries: Callable[[], int]
    ) -> None:
        """`retries`: the number of failed checks of a pull request that are sent to its agent."""
        self._store = store
        self._authorizer = authorizer
        self._messages = messages
        self._retries = retries

    async def show(self, call: OperationCall) -> list[PullRequestView]:
        session = self._authorizer.find(call.caller, call.target, SHOW.audience)
        reads = self._store.part(PART)
        return [
            PullRequestView(**_fields(session, found), reported=await reads.reported(session.id, found.url))
            for found in await reads.all(session.id)
        ]

    async def record(self, call: OperationCall) -> RecordedPullRequestView:
        """Keep a pull request, which is open. Raises InvalidText, UsageError and LimitReached."""
        session = self._authorizer.find(call.caller, call.target, RECORD.audience)
        given: OpenPullRequest = call.arguments
        url, branch = url_of(given.url), line_of(given.branch, "branch")
        if not 1 <= given.number <= _NUMBER_MAX:
            raise UsageError("the number of a pull request is a whole number from 1")
        async with self._store.transaction() as tx:
            session = tx.session(session.id)
            known = await tx.part(PART).all(session.id)
            found = next((each for each in known if each.url == url), None)
            if found is None:
                if len(known) >= PULL_REQUESTS_MAX:
                    raise LimitReached(
                        f"{short_label(session)} has {len(known)} pull requests, the most there can be"
                    )
                state = PullRequestState.OPEN
                found = PullRequest(session.id, url, given.number, branch, state, 0, tx.now)
                tx.part(PART).put(found)
                text = f"{subject(session)} has pull request {found.number} for {branch}: {url}"
                facts = {"url": url, "number": found.number, "branch": branch, "state": state}
                await tx.event(EventType.PULL_REQUEST, session, tx.now, text, facts)
            elif found.state is not PullRequestState.OPEN:  # somebody has opened it again
                found = replace(found, state=PullRequestState.OPEN)
                tx.part(PART).put(found)
        return RecordedPullRequestView(**_fields(session, found))

    async def report(self, call: OperationCall) -> ReportedPullRequestView:
        """Make news an event, and send the message to the agent. Does nothing for a known key.

        Raises NotFound for a pull request that is not recorded, and the errors of `Messages.enqueue` except
        IllegalState, with which the news is only an event.
        """
        caller = call.caller
        session = self._authorizer.find(caller, call.target, REPORT.audience)
        given = _checked(call.arguments)
        outcome = _Outcome(False, None, None)
        unarchived = False
        async with self._store.transaction() as tx:
            session = tx.session(session.id)
            found = next(
                (each for each in await tx.part(PART).all(session.id) if each.url == given.url), None
            )
            if found is None:
                raise NotFound(
                    f"{short_label(session)} has no pull request {given.url}", Hint(Use(SHOW, session.id))
                )
            known = await tx.part(PART).reported(session.id, found.url)
            if given.key not in known:
                if len(known) >= REPORTS_MAX:
                    raise LimitReached(f"the pull request {found.number} has {len(known)} reports already")
                outcome, unarchived = await self._send(tx, caller, session, found, given)
                is_retry = given.kind == ReportKind.CHECK and outcome.message_id is not None
                state = PullRequestState(given.outcome) if given.kind == ReportKind.STATE else found.state
                found = replace(found, retries=found.retries + is_retry, state=state)
                tx.part(PART).put(found)
                tx.part(PART).add_report(found, given.key)
                facts = {"url": found.url, "number": found.number, "kind": given.kind, "name": given.name}
                facts |= {
                    "outcome": given.outcome,
                    "message_id": outcome.message_id,
                    "unsent": outcome.unsent,
                }
                await tx.event(EventType.PULL_REQUEST, session, tx.now, _event(session, found, given), facts)
            elif given.kind == ReportKind.STATE:  # it was recorded as open since
                found = replace(found, state=PullRequestState(given.outcome))
                tx.part(PART).put(found)
        if unarchived:
            self._messages.record_unarchived(caller, session)
        return ReportedPullRequestView(
            **_fields(session, found),
            is_new=outcome.is_new,
            message_id=outcome.message_id,
            unsent=outcome.unsent,
        )

    async def _send(
        self, tx: Transaction, caller: Caller, session: Session, found: PullRequest, given: PullRequestReport
    ) -> "tuple[_Outcome, bool]":
        """Send the message of a new report, and return True if that has unarchived the session."""
        if given.text is None:
            return _Outcome(True, None, None), False
        retries = self._retries()
        if given.kind == ReportKind.CHECK and found.retries >= retries:
            return _Outcome(
                True, None, f"{plural(retries, 'failed check')} were sent already (pr.retries)"
            ), False
        text = given.text
        if self._messages.takes_one_line(session):
            # The program may be a shell: no words of others are typed into its terminal.
            text = typed_text(found.number, found.url, ReportKind(given.kind), given.outcome)
        try:
            sent = await self._messages.enqueue(tx, caller, session.id, text, MessageMode.AUTO, None)
        except IllegalState as error:
            return _Outcome(True, None, error.message), False
        return _Outcome(True, sent.done.id, None), sent.unarchived


@dataclass(frozen=True, slots=True)
class _Outcome:
    is_new: bool
    message_id: int | None
    unsent: str | None


def _checked(given: PullRequestReport) -> PullRequestReport:
    """The report with texts that can be shown. Raises InvalidText and UsageError."""
    if given.kind not in set(ReportKind):
        raise UsageError("the kind of a report is missing")
    if not _OUTCOME.fullmatch(given.outcome):
        raise UsageError("the outcome of a report has small letters and underscores")
    if given.kind == ReportKind.STATE and given.outcome not in set(PullRequestState):
        raise UsageError("the state of a pull request is open, merged or closed")
    name = None if given.name is None else line_of(given.name, "name")
    return replace(given, url=url_of(given.url), key=line_of(given.key, "key"), name=name)


def _event(session: Session, found: PullRequest, given: PullRequestReport) -> str:
    """The text of the event. Strangers may have chosen the name."""
    name = "" if given.name is None else quoted(given.name, NAME_MAX, untrusted=True)
    of, outcome = f"of pull request {found.number}", given.outcome.replace("_", " ")
    match ReportKind(given.kind):
        case ReportKind.CHECK:
            words = f"check {name} {of}: {outcome}"
        case ReportKind.REVIEW:
            words = f"review {of} by {name}: {outcome}"
        case ReportKind.COMMENT:
            words = f"comment on pull request {found.number} by {name}"
        case ReportKind.STATE:
            words = f"pull request {found.number} is {outcome}: {found.url}"
        case never:
            assert_never(never)
    return f"{subject(session)}: {words}"


def _fields(session: Session, found: PullRequest) -> dict[str, Any]:
    names = ("session_id", "url", "number", "branch", "state", "retries", "recorded_at")
    return {"label": label(session), **{name: getattr(found, name) for name in names}}


def url_of(text: str) -> str:
    """The URL of a pull request. Raises InvalidText."""
    url = validate_text(text, "url", URL_MAX, one_line=True)
    if not _URL.fullmatch(url):
        raise InvalidText("url: it is not one of https or http")
    return url


def line_of(text: str, what: str) -> str:
    """A line of text with only characters that are shown. Raises InvalidText."""
    words = validate_text(text, what, NAME_MAX, one_line=True)
    if not words.strip() or is_folded(words):
        raise InvalidText(f"{what}: it is empty, or has characters that are not shown")
    return words
