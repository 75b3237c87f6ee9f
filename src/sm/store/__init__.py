"""The database: sessions, events, effects, messages. Only this package uses SQLite."""

from sm.core.effects import Effect
from sm.store.commit import durable
from sm.store.connection import backups
from sm.store.database import Store
from sm.store.migrations import Schema
from sm.store.open_work import Open
from sm.store.transaction import Transaction

__all__ = ["Effect", "Open", "Schema", "Store", "Transaction", "backups", "durable"]
