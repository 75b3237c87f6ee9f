"""Use cases of pull requests: keeps them, and makes events of them."""

import re
from typing import Any

from sm.capabilities.pull_requests.model import (
    NAME_MAX,
    PULL_REQUESTS_MAX,
    URL_MAX,
    PullRequest,
    PullRequestState,
)
from sm.capabilities.pull_requests.operations import RECORD, SHOW, OpenPullRequest
from sm.capabilities.pull_requests.tables import PART
from sm.core.labels import label, short_label
from sm.core.models import Session
from sm.core.states import EventType
from sm.core.text import is_folded, validate_text
from sm.core.wording import subject
from sm.errors import InvalidText, LimitReached, UsageError
from sm.kernel import OperationCall
from sm.sessions.authorizer import Authorizer
from sm.store import Store
from sm.wire_types.pull_requests import PullRequestView, RecordedPullRequestView

_URL = re.compile(r"https?://[!-~]+")
_NUMBER_MAX = 1_000_000_000


class PullRequestRecords:
    """Use cases of the pull requests of a session."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer

    async def show(self, call: OperationCall) -> list[PullRequestView]:
        session = self._authorizer.find(call.caller, call.target, SHOW.audience)
        reads = self._store.part(PART)
        return [
            PullRequestView(**_fields(session, found), reported=await reads.reported(session.id, found.url))
            for found in await reads.all(session.id)
        ]

    async def record(self, call: OperationCall) -> RecordedPullRequestView:
        """Keep a pull request. One that is known stays as it is. Raises InvalidText, UsageError and LimitReached."""
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
        return RecordedPullRequestView(**_fields(session, found))


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
