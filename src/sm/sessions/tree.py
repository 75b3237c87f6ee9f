"""The tree of sessions, and the lookup of a session by id or name. Pure."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from sm.core.lifecycle import is_live
from sm.core.models import Session, ancestors
from sm.core.reference import session_word
from sm.core.session_index import PREFIX_MIN, SessionIndex, short_name
from sm.core.text import folded
from sm.errors import NotFound
from sm.operations.list_operations import SEE_SESSIONS
from sm.policy.relations import Principal, Relation, relation, visible

_WORD_MAX = 200
"""Longer than any name. A search for names similar to a longer text could take seconds."""
_SIMILAR_MAX = 200
"""The newest sessions whose names are compared with a wrong name: each comparison takes up to 0.1 ms."""


def matches(session: Session, words: str) -> bool:
    """True if each of `words` occurs in a text of the session. Ignores case."""
    described = (
        session.id, session.name, session.friendly_name, session.title, session.agent_type, session.note,
        session.working_dir, session.completion_message, session.status,
    )  # fmt: skip
    text = "\n".join(part for part in described if part).casefold()
    return all(word in text for word in words.casefold().split())


def relation_in_tree(
    principal: Principal, target: Session, find: Callable[[str], Session | None]
) -> Relation:
    """The relation of `principal` to `target`. `find` takes an id."""
    below = isinstance(principal, Session) and any(a.id == principal.id for a in ancestors(target, find))
    return relation(principal, target, is_descendant=below)


class SessionTree:
    """The tree of all sessions, including archived ones. `index`: of the same sessions, for `find`."""

    def __init__(self, sessions: Mapping[str, Session], index: SessionIndex | None = None) -> None:
        self._sessions = sessions
        self._index = index

    def children(self, parent_id: str | None) -> list[Session]:
        return [s for s in self._sessions.values() if s.parent_id == parent_id]

    def descendants(self, session_id: str) -> Iterator[Session]:
        """All descendants, nearest first."""
        children: dict[str, list[Session]] = {}
        for session in self._sessions.values():
            if session.parent_id is not None:
                children.setdefault(session.parent_id, []).append(session)
        pending = [session_id]
        while pending:
            for child in children.pop(pending.pop(0), []):
                yield child
                pending.append(child.id)

    def relation(self, principal: Principal, target: Session) -> Relation:
        """The relation of `principal` to `target`, for `policy`."""
        return relation_in_tree(principal, target, self._sessions.get)

    def find(self, principal: Principal, reference: str) -> Session:
        """Find a session by id, name, friendly name (also without its agent type) or unique prefix of the id.

        If there is none, the forms of `session_word` are tried. Of several sessions with one friendly name, a live one
        wins, else the newest. Raises NotFound, with the same message for a missing session and for one that the caller
        may not see.
        """
        try:
            return self._find(principal, reference, reference.lower())
        except NotFound:
            word = session_word(reference)
            if word == reference.lower():
                raise
            return self._find(principal, reference, word)

    def _find(self, principal: Principal, reference: str, word: str) -> Session:
        if len(word) > _WORD_MAX:
            raise NotFound(
                f"no such session: {folded(reference[:_WORD_MAX], 80)}",
                SEE_SESSIONS,
            )
        by_id = self._sessions.get(word)
        if by_id is not None and visible(principal, by_id):
            return by_id
        index = self._index or SessionIndex(self._sessions.values())
        candidates = [s for s in index.named(word) if visible(principal, s)]
        # A name is unique for ever, but any caller may choose the same text as a friendly name.
        named = [s for s in candidates if s.name == word]
        if not named:
            friendly = [s for s in candidates if s.friendly_name == word]
            named = [s for s in friendly if is_live(s.status)] or friendly
        if named:
            return named[-1]
        short = [s for s in candidates if short_name(s) == word]
        if short:
            return _newest(reference, [s for s in short if is_live(s.status)] or short)
        beginning = index.with_prefix(word) if len(word) >= PREFIX_MIN else iter(())
        prefixed = [s for s in beginning if visible(principal, s)]
        if len(prefixed) == 1:
            return prefixed[0]
        if prefixed:
            raise NotFound(
                f"ambiguous session id {reference}: {len(prefixed)} sessions match",
                f"use a longer prefix of one of: {', '.join(s.id for s in prefixed[:5])}",
            )
        newest = [s for s in self._sessions.values() if visible(principal, s)][-_SIMILAR_MAX:]
        names = [name for s in newest for name in (s.id, s.name, s.friendly_name) if name]
        near = get_close_matches(word, names, n=1)
        raise NotFound(
            f"no such session: {folded(reference, 80)}",
            f"did you mean {near[0]}?" if near else SEE_SESSIONS,
        )


def _newest(reference: str, sessions: list[Session]) -> Session:
    """Raises NotFound for an ambiguous reference, so that no command affects the wrong session."""
    if len({s.friendly_name for s in sessions}) > 1:
        names = ", ".join(s.friendly_name or s.name for s in sessions[:5])
        raise NotFound(
            f"ambiguous session name {folded(reference, 80)}: {len(sessions)} sessions match",
            f"use the full name: {names}",
        )
    return sessions[-1]
