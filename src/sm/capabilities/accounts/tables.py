"""Accounts and their parks in the database, with a copy of all of them in memory."""

from collections.abc import Mapping
from dataclasses import field, replace

from sm.capabilities.accounts.model import Account, AccountTimer, Park, ParkKind
from sm.capabilities.accounts.rules import binding_park, park_reason, paused_with
from sm.core.dataclass import dataclass
from sm.core.labels import short_label
from sm.core.models import OPERATOR, Session
from sm.errors import IllegalState, LimitReached
from sm.store import Open, Store, Transaction
from sm.store.connection import Read
from sm.store.part import PartWrites, TablePart
from sm.store.rows import RowTable, insertion


def _park_kind(text: str) -> ParkKind:
    # A newer version knows more kinds. The operator can end any park.
    return ParkKind(text) if text in set(ParkKind) else ParkKind.OPERATOR


_ACCOUNTS = RowTable("accounts", Account)
_PARKS = RowTable("parks", Park, decode={"kind": _park_kind})


@dataclass(frozen=True, slots=True)
class AccountRows:
    """All rows, in memory."""

    accounts: Mapping[str, Account] = field(default_factory=dict)
    """By name."""
    parks: Mapping[tuple[str, str], Park] = field(default_factory=dict)
    """By account and model."""

    def __bool__(self) -> bool:
        """False without rows: the store keeps no empty copy."""
        return bool(self.accounts or self.parks)

    def binding_park(self, session: Session) -> Park | None:
        """As `rules.binding_park`."""
        return binding_park(self.parks.values(), session)


class AccountReads:
    """Reads accounts and parks, as committed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def rows(self) -> AccountRows:
        return PART.rows_of(self._store.mail.open)


class AccountWrites(PartWrites):
    """Adds, parks and unparks accounts in a transaction. `state` decides what follows."""

    _tx: Transaction

    @property
    def rows(self) -> AccountRows:
        return PART.rows_of(self._tx.mail.open)

    def find(self, name: str) -> Account | None:
        return self.rows.accounts.get(name)

    def put(self, account: Account) -> None:
        """Add the account, or replace the one with its name."""
        if self.find(account.name) == account:
            return
        self._tx.write(*insertion(_ACCOUNTS.name, _ACCOUNTS.row(account), verb="INSERT OR REPLACE"))
        self.keep(replace(self.rows, accounts={**self.rows.accounts, account.name: account}))

    def parks(self, account: str) -> Mapping[str, Park]:
        """The parks of an account, by model."""
        return {park.model: park for park in self.rows.parks.values() if park.account == account}

    def park(self, park: Park) -> None:
        """Add the park, or replace the one of its account and model."""
        self._tx.write(*insertion(_PARKS.name, _PARKS.row(park), verb="INSERT OR REPLACE"))
        self.keep(replace(self.rows, parks={**self.rows.parks, (park.account, park.model): park}))

    def unpark(self, park: Park) -> None:
        key = park.account, park.model
        self._tx.write("DELETE FROM parks WHERE account = ? AND model = ?", key)
        parks = {other: kept for other, kept in self.rows.parks.items() if other != key}
        self.keep(replace(self.rows, parks=parks))

    async def keep_paused(self, session: Session) -> IllegalState | None:
        """Let only the end of its account's pause end the pause of a session, if a person has paused the account."""
        parks = () if session.account is None else self.parks(session.account).values()
        if session.paused is None or not any(p.kind is ParkKind.OPERATOR for p in parks):
            return None
        reason, by = paused_with(session.account or ""), OPERATOR.name
        pause = replace(session.paused, by=by, reason=reason, until=None, hold=None, account=session.account)
        await self._tx.update(session, paused=pause)
        return IllegalState(
            f"session {short_label(session)} is paused with its account {session.account}, "
            "which only the operator can resume"
        )

    def wait_refusal(self, session: Session, why: str) -> LimitReached:
        return LimitReached(f"account {session.account} is {why}", "sm accounts")


class AccountTables(TablePart[AccountReads, AccountWrites]):
    """The tables of accounts and of parks."""

    empty = AccountRows()

    def rows_of(self, open: Open) -> AccountRows:
        rows: AccountRows = super().rows_of(open)
        return rows

    async def load(self, read: Read) -> AccountRows:
        accounts = map(_ACCOUNTS.load, await read(f"{_ACCOUNTS.select} ORDER BY name", ()))
        parks = map(_PARKS.load, await read(f"{_PARKS.select} ORDER BY account, model", ()))
        return AccountRows({a.name: a for a in accounts}, {(p.account, p.model): p for p in parks})

    def reads(self, store: Store) -> AccountReads:
        return AccountReads(store)

    def writes(self, transaction: Transaction) -> AccountWrites:
        return AccountWrites(self, transaction)

    def postponed(self, session: Session, open: Open, now: float) -> str | None:
        """Postpone the turns of a session whose account is parked, or whose turn to go on has not come."""
        parked = self.rows_of(open).binding_park(session)
        if parked is not None:
            return park_reason(parked, now)
        if (session.id, AccountTimer.FOLLOW) in open.timers:
            return "the sessions of its account go on one after the other"
        return None


PART = AccountTables()
