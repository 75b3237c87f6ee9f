"""Who is whose child, and which session a word names. Pure, over the sessions as they are now."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from sm.core.lifecycle import is_live
from sm.core.models import Session, ancestors
from sm.core.text import folded
from sm.errors import NotFound
from sm.policy.access import Relation, relation, visible

_PREFIX_MIN = 4
_WORD_MAX = 200
"""Longer than any name: to look for what is like it would take seconds."""


def matches(session: Session, words: str) -> bool:
    """Whether everything that `words` holds stands somewhere in what describes the session, in any case."""
    described = (
        session.id, session.name, session.friendly_name, session.title, session.agent_type, session.note,
        session.working_dir, session.completion_message, session.status,
    )  # fmt: skip
    text = "\n".join(part for part in described if part).casefold()
    return all(word in text for word in words.casefold().split())


class SessionTree:
    """The tree of all sessions. Archived ones are found by name too, but listed only when asked for."""

    def __init__(self, sessions: Mapping[str, Session]) -> None:
        self._sessions = sessions

    def children(self, parent_id: str | None) -> list[Session]:
        return [s for s in self._sessions.values() if s.parent_id == parent_id]

    def roots(self) -> list[Session]:
        """Sessions of the operator: without a parent, or with one that is no longer known."""
        return [
            s for s in self._sessions.values() if s.parent_id is None or s.parent_id not in self._sessions
        ]

    def descendants(self, session_id: str) -> Iterator[Session]:
        """Everything below, nearest first."""
        below: dict[str, list[Session]] = {}
        for session in self._sessions.values():
            if session.parent_id is not None:
                below.setdefault(session.parent_id, []).append(session)
        waiting = [session_id]
        while waiting:
            for child in below.pop(waiting.pop(0), []):
                yield child
                waiting.append(child.id)

    def relation(self, caller_session: Session | None, target: Session) -> Relation:
        """The relation of `caller_session` (None: the operator) to `target`, for `policy`."""
        return relation(
            caller_session,
            target,
            is_descendant=caller_session is not None
            and any(above.id == caller_session.id for above in ancestors(target, self._sessions.get)),
        )

    def find(self, caller_session: Session | None, reference: str) -> Session:
        """The session that `reference` names to `caller_session`: id, name, friendly name (also as it was given with
        `--name`, without the agent type) or unique prefix of the id.

        Of several sessions that had one friendly name the one that lives is meant, else the newest. Raises
        NotFound, in the same words for what is not there and for what the caller may not see.
        """
        word = reference.lower()
        if len(word) > _WORD_MAX:
            raise NotFound(f"no such session: {folded(reference[:_WORD_MAX], 80)}", "sm all lists them")
        seen = [s for s in self._sessions.values() if visible(caller_session, s)]
        by_id = self._sessions.get(word)
        if by_id is not None and visible(caller_session, by_id):
            return by_id
        # A name is for ever one session's; a friendly one like it may be chosen by anybody.
        named = [s for s in seen if s.name == word]
        if not named:
            friends = [s for s in seen if s.friendly_name == word]
            named = [s for s in friends if is_live(s.status)] or friends
        if named:
            return named[-1]
        short = [s for s in seen if s.friendly_name == f"{s.agent_type.lower()}-{word}"]
        if short:
            return _one_of(reference, [s for s in short if is_live(s.status)] or short)
        begun = [s for s in seen if s.id.startswith(word)] if len(word) >= _PREFIX_MIN else []
        if len(begun) == 1:
            return begun[0]
        if begun:
            raise NotFound(
                f"{reference} is the beginning of {len(begun)} session ids",
                f"write more of it: {', '.join(s.id for s in begun[:5])}",
            )
        names = [name for s in seen for name in (s.id, s.name, s.friendly_name) if name]
        near = get_close_matches(word, names, n=1)
        raise NotFound(
            f"no such session: {folded(reference, 80)}",
            f"did you mean {near[0]}?" if near else "sm all lists them",
        )


def _one_of(reference: str, found: list[Session]) -> Session:
    """Raises NotFound when it could be another: a wrong one could be killed."""
    if len({s.friendly_name for s in found}) > 1:
        names = ", ".join(s.friendly_name or s.name for s in found[:5])
        raise NotFound(f"{folded(reference, 80)} names {len(found)} sessions", f"write more of it: {names}")
    return found[-1]
