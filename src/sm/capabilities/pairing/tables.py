"""Paired users and requests for pairing in the database, with a copy of all of them in memory."""

from collections.abc import Mapping
from dataclasses import field, replace

from sm.capabilities.pairing.model import Pairing, PairRequest, PairState
from sm.core.dataclass import dataclass
from sm.core.states import BridgeLevel
from sm.store import Open, Store, Transaction
from sm.store.connection import Read
from sm.store.part import PartWrites, TablePart
from sm.store.rows import RowTable, insertion


def _level(text: str) -> BridgeLevel:
    # An unknown level must not read as the most trusted one. A row makes nobody an owner.
    return BridgeLevel.DIRECT if text == BridgeLevel.DIRECT else BridgeLevel.SANDBOXED


_REQUESTS = RowTable("pair_requests", PairRequest, decode={"state": PairState})
_PAIRINGS = RowTable("pairings", Pairing, decode={"level": _level})


@dataclass(frozen=True, slots=True)
class PairingRows:
    """All rows, in memory."""

    pairings: Mapping[str, Pairing] = field(default_factory=dict)
    """By user."""
    requests: Mapping[int, PairRequest] = field(default_factory=dict)
    """In any state. A request that has expired is removed with the next one."""

    def __bool__(self) -> bool:
        """False without rows: the store keeps no empty copy."""
        return bool(self.pairings or self.requests)

    def named(self, user: str) -> Pairing | None:
        """The pairing of the user; `user` may be the number alone, if only one network has it."""
        found = [p for p in self.pairings.values() if user in (p.user, p.user.partition(":")[2])]
        return found[0] if len(found) == 1 else None


class PairingReads:
    """Reads pairings and requests, as committed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def rows(self) -> PairingRows:
        return PART.rows_of(self._store.mail.open)


class PairingWrites(PartWrites):
    """Adds, changes and removes pairings and their requests in a transaction."""

    _tx: Transaction

    @property
    def rows(self) -> PairingRows:
        return PART.rows_of(self._tx.mail.open)

    def new_id(self) -> int:
        """The number of a new request."""
        return self._tx.mail.new_id(_REQUESTS.name)

    def put(self, pairing: Pairing) -> None:
        """Add the pairing, or replace the one of its user."""
        self._tx.write(*insertion(_PAIRINGS.name, _PAIRINGS.row(pairing), verb="INSERT OR REPLACE"))
        self.keep(replace(self.rows, pairings={**self.rows.pairings, pairing.user: pairing}))

    def remove(self, user: str) -> None:
        self._tx.write("DELETE FROM pairings WHERE user = ?", (user,))
        pairings = {name: pairing for name, pairing in self.rows.pairings.items() if name != user}
        self.keep(replace(self.rows, pairings=pairings))

    def put_request(self, request: PairRequest) -> None:
        """Add the request, or replace the one with its id."""
        self._tx.write(*insertion(_REQUESTS.name, _REQUESTS.row(request), verb="INSERT OR REPLACE"))
        self.keep(replace(self.rows, requests={**self.rows.requests, request.id: request}))

    def remove_request(self, request: PairRequest) -> None:
        self._tx.write("DELETE FROM pair_requests WHERE id = ?", (request.id,))
        requests = {key: r for key, r in self.rows.requests.items() if key != request.id}
        self.keep(replace(self.rows, requests=requests))


class PairingTables(TablePart[PairingReads, PairingWrites]):
    """The tables of paired users and of requests."""

    empty = PairingRows()

    def rows_of(self, open: Open) -> PairingRows:
        rows: PairingRows = super().rows_of(open)
        return rows

    async def load(self, read: Read) -> PairingRows:
        pairings = map(_PAIRINGS.load, await read(f"{_PAIRINGS.select} ORDER BY user", ()))
        requests = map(_REQUESTS.load, await read(f"{_REQUESTS.select} ORDER BY id", ()))
        return PairingRows({p.user: p for p in pairings}, {r.id: r for r in requests})

    def reads(self, store: Store) -> PairingReads:
        return PairingReads(store)

    def writes(self, transaction: Transaction) -> PairingWrites:
        return PairingWrites(self, transaction)


PART = PairingTables()
