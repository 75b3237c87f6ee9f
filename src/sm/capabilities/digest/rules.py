"""The entries of the digest: endings, warnings and spending since a time, open requests, and live sessions. Pure."""

import functools
from collections.abc import Iterable, Mapping

from sm.capabilities.digest.screen import times_text
from sm.core.labels import label, name_to_type
from sm.core.lifecycle import is_ended
from sm.core.models import Event, Session, ancestors
from sm.core.requests import Request
from sm.core.statuses import Status
from sm.core.tree_totals import NO_TOTALS, Totals
from sm.core.usage import COST_DIGITS
from sm.core.wording import quote_session, request_notice, status_words
from sm.wire_types.digest import DigestEntryView, TreeSpendingView

_WORST = (Status.ERROR, Status.ABANDONED, Status.KILLED, Status.COMPLETED)
_WAITING = (Status.WAITING_INPUT, Status.IDLE, Status.SPAWNED, Status.STARTING, Status.RUNNING)


def ended_entries(sessions: Iterable[Session], since: str) -> list[DigestEntryView]:
    """The sessions that ended after `since`: failures first, then the newest."""
    found = [s for s in sessions if is_ended(s.status) and (s.completed_at or s.status_at) >= since]
    found.sort(key=lambda s: s.completed_at or s.status_at, reverse=True)
    found.sort(key=lambda s: _WORST.index(s.status))
    return [
        DigestEntryView(s.id, label(s), s.status, s.completed_at or s.status_at, _ending(s), _look(s), 1)
        for s in found
    ]


def live_entries(sessions: Iterable[Session]) -> list[DigestEntryView]:
    """The live sessions: first those that may wait for a person, then the oldest status.

    A status that only a newer version knows comes last.
    """
    places = {status: place for place, status in enumerate(_WAITING)}
    found = sorted(
        (s for s in sessions if not is_ended(s.status)),
        key=lambda s: (places.get(s.status, len(places)), s.status_at),
    )
    return [
        DigestEntryView(
            s.id,
            label(s),
            status_words(s),
            s.status_at,
            (s.paused.reason if s.paused is not None else None) or s.note or s.status_reason or "",
            _look(s),
            1,
        )
        for s in found
    ]


def request_entries(requests: Iterable[Request], sessions: Mapping[str, Session]) -> list[DigestEntryView]:
    """The open requests, oldest first, each with the command that answers it."""
    found = []
    for request in sorted(requests, key=lambda r: r.created_at):
        session = sessions.get(request.session_id)
        if session is not None and request.open and not request.has_proposed_answer:
            text = request_notice(session, request, None)
            found.append(
                DigestEntryView(
                    session.id,
                    label(session),
                    request.kind,
                    request.created_at,
                    text,
                    f"sm requests {request.name}",
                    1,
                )
            )
    return found


def warning_entries(
    events: Iterable[Event], sessions: Mapping[str, Session], since: str
) -> list[DigestEntryView]:
    """One entry for each session, kind and subject of a warning after `since`: the newest, with its repetitions.

    Excludes the events of the end of a warning, and of an agent that goes on after it was told.
    """
    newest: dict[tuple[str, str, str], tuple[Event, int]] = {}
    for event in events:
        if event.timestamp < since or event.session_id not in sessions:
            continue
        if event.metadata.get("ended") or "warning" in event.metadata:
            continue
        kind, about = event.metadata.get("kind"), event.metadata.get("subject")
        key = event.session_id, str(kind or event.message), str(about or "")
        _, count = newest.get(key, (event, 0))
        newest[key] = event, count + 1
    found = []
    for event, count in newest.values():
        session = sessions[event.session_id]
        text = event.message if count == 1 else f"{event.message}{times_text(count)}"
        kind = str(event.metadata.get("kind") or "warning")
        found.append(
            DigestEntryView(session.id, label(session), kind, event.timestamp, text, _look(session), count)
        )
    return sorted(found, key=lambda entry: entry.at, reverse=True)


def spending(
    sessions: Mapping[str, Session], used: Mapping[str, Totals], budgets: Mapping[str, str]
) -> list[TreeSpendingView]:
    """The spending by tree, the most expensive tree first.

    `budgets`: words about the budgets of sessions by id. Each of these has an entry, also below the root of its tree.
    """
    trees: dict[str, list[Totals]] = {session_id: [] for session_id in budgets}
    for session_id, usage in used.items():
        session = sessions[session_id]
        line = [session, *ancestors(session, sessions.get)]
        for top in {line[-1].id, *(s.id for s in line if s.id in budgets)}:
            trees.setdefault(top, []).append(usage)
    found = []
    for root_id, usages in trees.items():
        total = functools.reduce(Totals.plus, usages, NO_TOTALS)
        found.append(
            TreeSpendingView(
                root_id,
                label(sessions[root_id]),
                len(usages),
                total.tokens.used,
                None if total.unpriced else round(total.cost, COST_DIGITS),
                budgets.get(root_id),
                total.known_cost_usd,
                tokens_partial=total.unread > 0,
                is_part=any(True for _ in ancestors(sessions[root_id], sessions.get)),
            )
        )
    return sorted(found, key=lambda tree: (-(tree.known_cost_usd or 0.0), -tree.tokens_used))


def _ending(session: Session) -> str:
    if session.completion_message and session.completion_message != session.status_reason:
        return quote_session(session, session.completion_message)
    return session.status_reason or ""


def _look(session: Session) -> str:
    command = "output" if is_ended(session.status) else "tail"
    return f"sm {command} {name_to_type(session)}"
