"""Warnings in the database. `Open.warnings` has a copy of the open ones."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sm.core.warnings import SessionWarning, WarningKind
from sm.store.rows import WARNINGS

if TYPE_CHECKING:
    from sm.store.transaction import Transaction


class WarningWrites:
    """Opens, changes and closes warnings in a transaction."""

    def __init__(self, transaction: "Transaction") -> None:
        self._tx = transaction

    def find(self, session_id: str, kind: WarningKind, subject: str = "") -> SessionWarning | None:
        """The open warning of this kind about this subject."""
        found = (w for w in self.all_of(session_id) if w.kind is kind and w.subject == subject)
        return next(found, None)

    def all_of(self, session_id: str) -> tuple[SessionWarning, ...]:
        """The open warnings of the session, oldest first."""
        return self._tx.mail.open.warnings.get(session_id, ())

    def add(self, warning: SessionWarning) -> None:
        """Add an open warning. Its session must have none of that kind and subject."""
        self._tx.insert_row("warnings", WARNINGS.row(warning))
        self._keep(warning.session_id, (*self.all_of(warning.session_id), warning))

    def change(self, warning: SessionWarning, **changes: Any) -> SessionWarning:
        """Change an open warning; one that gets a `closed_at` is closed."""
        after = replace(warning, **changes)
        old, new = WARNINGS.row(warning), WARNINGS.row(after)
        changed = {name: value for name, value in new.items() if value != old[name]}
        if changed:
            sets = ", ".join(f"{name} = ?" for name in changed)
            self._tx.write(f"UPDATE warnings SET {sets} WHERE id = ?", (*changed.values(), warning.id))  # noqa: S608
        known = (after if w.id == warning.id else w for w in self.all_of(warning.session_id))
        self._keep(warning.session_id, tuple(w for w in known if w.closed_at is None))
        return after

    def forget(self, session_id: str) -> None:
        """Delete the warnings of a removed session."""
        self._tx.write("DELETE FROM warnings WHERE session_id = ?", (session_id,))
        if self.all_of(session_id):
            self._keep(session_id, ())

    def _keep(self, session_id: str, warnings: tuple[SessionWarning, ...]) -> None:
        known = {s: others for s, others in self._tx.mail.open.warnings.items() if s != session_id}
        if warnings:
            known[session_id] = warnings
        self._tx.mail.open = replace(self._tx.mail.open, warnings=known)
