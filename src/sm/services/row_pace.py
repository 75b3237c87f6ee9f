"""Limits how often a row of a live view changes. Pure: the caller passes the time."""

_LEAST_S = 0.25


class RowPace:
    """Knows when each row has changed: it may change again a quarter of a second later."""

    def __init__(self) -> None:
        self._changed_s: dict[str, float] = {}

    def note(self, session_id: str, now_s: float) -> None:
        """Note that the row changes now."""
        self._changed_s[session_id] = now_s

    def forget(self, session_id: str) -> None:
        self._changed_s.pop(session_id, None)

    def may_change(self, session_id: str, now_s: float) -> bool:
        changed_s = self._changed_s.get(session_id)
        return changed_s is None or now_s - changed_s >= _LEAST_S
