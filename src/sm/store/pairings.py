"""Paired users and requests for pairing in the database. `Open` has a copy of all of them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from sm.core.pairing import Pairing, PairRequest
from sm.store.rows import PAIR_REQUESTS, PAIRINGS, insertion

if TYPE_CHECKING:
    from sm.store.transaction import Transaction


class PairingWrites:
    """Adds, changes and removes pairings and their requests in a transaction."""

    def __init__(self, transaction: "Transaction") -> None:
        self._tx = transaction

    def find(self, user: str) -> Pairing | None:
        return self._tx.mail.open.pairings.get(user)

    def put(self, pairing: Pairing) -> None:
        """Add the pairing, or replace the one of its user."""
        self._tx.write(*insertion(PAIRINGS.name, PAIRINGS.row(pairing), verb="INSERT OR REPLACE"))
        pairings = {**self._tx.mail.open.pairings, pairing.user: pairing}
        self._tx.mail.open = replace(self._tx.mail.open, pairings=pairings)

    def remove(self, user: str) -> None:
        self._tx.write("DELETE FROM pairings WHERE user = ?", (user,))
        pairings = {name: pairing for name, pairing in self._tx.mail.open.pairings.items() if name != user}
        self._tx.mail.open = replace(self._tx.mail.open, pairings=pairings)

    def put_request(self, request: PairRequest) -> None:
        """Add the request, or replace the one with its id."""
        row = PAIR_REQUESTS.row(request)
        self._tx.write(*insertion(PAIR_REQUESTS.name, row, verb="INSERT OR REPLACE"))
        requests = {**self._tx.mail.open.pair_requests, request.id: request}
        self._tx.mail.open = replace(self._tx.mail.open, pair_requests=requests)

    def remove_request(self, request: PairRequest) -> None:
        self._tx.write("DELETE FROM pair_requests WHERE id = ?", (request.id,))
        requests = {key: r for key, r in self._tx.mail.open.pair_requests.items() if key != request.id}
        self._tx.mail.open = replace(self._tx.mail.open, pair_requests=requests)
