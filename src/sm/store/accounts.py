"""Accounts and their parks in the database. `Open` has a copy of all of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sm.core.accounts import Account, Park
from sm.store.rows import ACCOUNTS, PARKS, insertion

if TYPE_CHECKING:
    from sm.store.transaction import Transaction


class AccountWrites:
    """Adds, parks and unparks accounts in a transaction."""

    def __init__(self, transaction: "Transaction") -> None:
        self._tx = transaction

    def find(self, name: str) -> Account | None:
        return self._tx.mail.open.accounts.get(name)

    def put(self, account: Account) -> None:
        """Add the account, or replace the one with its name."""
        if self.find(account.name) == account:
            return
        self._tx.write(*insertion(ACCOUNTS.name, ACCOUNTS.row(account), verb="INSERT OR REPLACE"))
        accounts = {**self._tx.mail.open.accounts, account.name: account}
        self._tx.mail.open = replace(self._tx.mail.open, accounts=accounts)

    def parks(self, account: str) -> Mapping[str, Park]:
        """The parks of an account, by model."""
        return {park.model: park for park in self._tx.mail.open.parks.values() if park.account == account}

    def park(self, park: Park) -> None:
        """Add the park, or replace the one of its account and model."""
        self._tx.write(*insertion(PARKS.name, PARKS.row(park), verb="INSERT OR REPLACE"))
        parks = {**self._tx.mail.open.parks, (park.account, park.model): park}
        self._tx.mail.open = replace(self._tx.mail.open, parks=parks)

    def unpark(self, park: Park) -> None:
        key = park.account, park.model
        self._tx.write("DELETE FROM parks WHERE account = ? AND model = ?", key)
        parks = {other: kept for other, kept in self._tx.mail.open.parks.items() if other != key}
        self._tx.mail.open = replace(self._tx.mail.open, parks=parks)
