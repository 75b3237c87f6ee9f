"""Computes the spending that usage adds to budgets. Pure."""

from collections.abc import Iterable, Mapping

from sm.capabilities.budgets.model import Spent
from sm.core.tree_totals import Price
from sm.core.usage import Usage


def added_spending(
    stored: Mapping[str, Usage],
    usages: Iterable[Usage],
    price: Price,
) -> Spent:
    """The spending that `usages` add to the stored ones. As in the database, the larger output of a message counts.

    Spending never shrinks, also if a transcript is written anew with less usage.
    """
    known, total = dict(stored), Spent()
    for used in usages:
        before = known.get(used.message_id)
        if before is not None and not used.replaces(before):
            continue
        known[used.message_id] = used
        added = priced(used, price)
        total += added if before is None else added.beyond(priced(before, price))
    return total


def priced(used: Usage, price: Price) -> Spent:
    """The spending of one message, or of the sum of messages with one model."""
    cost = price([used])
    tokens = used.input + used.output
    if cost is None:
        return Spent(tokens=tokens, unpriced=used.context)
    return Spent(usd=cost, tokens=tokens)
