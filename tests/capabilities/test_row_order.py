"""The rows of several capabilities beside each other."""

from pathlib import Path

from sm.capabilities.accounts.model import Account
from sm.capabilities.accounts.tables import PART as ACCOUNTS
from sm.capabilities.budgets.model import DAILY, Amounts, Budget
from sm.capabilities.budgets.tables import PART as BUDGETS
from sm.store import Store


async def test_rows_of_parts_keep_their_order_at_every_write_and_restart(tmp_path: Path) -> None:
    """The first part that holds a session names the reason, so a restart must not change which is the first."""

    def parts(store: Store) -> list[str]:
        return [type(part).__name__ for part in store.mail.open.parts]

    database = str(tmp_path / "sm.db")
    async with await Store.open(database) as store:
        async with store.transaction() as tx:
            tx.part(BUDGETS).put(Budget(DAILY, Amounts(usd=1)))
        async with store.transaction() as tx:
            tx.part(ACCOUNTS).put(Account("work", "claude", "/c", "d", None))
        written = parts(store)
    async with await Store.open(database) as store:
        assert parts(store) == written
    assert len(written) == 2
