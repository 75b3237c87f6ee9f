"""The database: sessions, events, effects, messages. Only this package uses SQLite."""

from sm.core.effects import Effect
from sm.store.connection import backups
from sm.store.database import Store, durable
from sm.store.messages import Open
from sm.store.transaction import Transaction

__all__ = ["Effect", "Open", "Store", "Transaction", "backups", "durable"]
