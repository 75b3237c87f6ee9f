"""Timers in the database. `Open.timers` has a copy of all of them."""

from dataclasses import replace

from sm.core.timers import Timer
from sm.store.rows import TIMERS, insertion
from sm.store.writes import Writes


class TimerWrites(Writes):
    """Sets and removes timers in a transaction."""

    def find(self, subject: str, kind: str) -> Timer | None:
        return self._tx.open.timers.get((subject, kind))

    def set(self, timer: Timer) -> None:
        """Add the timer, or replace the one of its kind."""
        self._tx.write(*insertion(TIMERS.name, TIMERS.row(timer), verb="INSERT OR REPLACE"))
        timers = {**self._tx.open.timers, timer.key: timer}
        self._tx.open = replace(self._tx.open, timers=timers)

    def take(self, timer: Timer) -> bool:
        """Remove the timer before its action in the same transaction. Returns False if it has changed; do not act."""
        if self._tx.open.timers.get(timer.key) != timer:
            return False
        self.remove(timer.subject, timer.kind)
        return True

    def remove(self, subject: str, *kinds: str) -> None:
        """Remove the subject's timers of these kinds; without `kinds`, all of them."""
        known = self._tx.open.timers
        gone = {key for key in known if key[0] == subject and (not kinds or key[1] in kinds)}
        if not gone:
            return
        for key in gone:
            self._tx.write("DELETE FROM timers WHERE subject = ? AND kind = ?", key)
        left = {key: timer for key, timer in known.items() if key not in gone}
        self._tx.open = replace(self._tx.open, timers=left)
