"""Idempotency: the same request of the same caller is carried out once (docs/protocol.md, Retries)."""

from sm.core.models import Caller, RequestKey
from sm.errors import UsageError
from sm.store import Transaction


async def recalled(tx: Transaction, caller: Caller, key: RequestKey | None) -> str | None:
    """The result of the same request, if it was carried out before."""
    earlier = None if key is None else await tx.recall(str(caller), key.text)
    if earlier is None or key is None:
        return None
    fingerprint, result = earlier
    if fingerprint != key.fingerprint:
        raise UsageError("this Idempotency-Key was used for another request")
    return result


async def remember(tx: Transaction, caller: Caller, key: RequestKey | None, result: str, at: str) -> None:
    if key is not None:
        await tx.remember(str(caller), key.text, key.fingerprint, result, at)
