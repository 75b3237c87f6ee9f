"""The database: sessions, events, effects, messages. One writer, one file; only this package knows SQLite."""

from sm.store.database import Store, backups
from sm.store.transaction import Effect, Transaction

__all__ = ["Effect", "Store", "Transaction", "backups"]
