"""Sample sessions for tests of pure modules and of the store."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sm.core.models import Launch, Session
from sm.core.states import Mode, TrustLevel
from sm.core.statuses import Status
from sm.store import Store, Transaction

T = TypeVar("T")

AT = "2026-01-27T15:10:00.000Z"


def session(session_id: str, *, parent: str | None = None, status: Status = Status.SPAWNED) -> Session:
    return Session(
        id=session_id,
        name=f"engineer-{session_id}",
        agent_type="Engineer",
        provider="command",
        status=status,
        status_source="test",
        status_reason="made for a test",
        status_at=AT,
        mode=Mode.AUTO,
        created_by="operator" if parent is None else f"session:{parent}",
        working_dir="/tmp",
        trust_level=TrustLevel.SANDBOXED,
        effective_mode=TrustLevel.DIRECT,
        terminal=f"command-{session_id}",
        created_at=AT,
        parent_id=parent,
    )


LAUNCH = Launch(
    argv=("python3", "agent.py", "a prompt"),
    environment={"PATH": "/bin", "KEY": "sécret\n2"},
    inherited={"PATH": "/bin"},
    working_dir="/tmp",
    prompt_file="a prompt",
)


async def commit(store: Store, change: Callable[[Transaction], Awaitable[T]]) -> T:
    """Run `change` in its own transaction."""
    async with store.transaction() as tx:
        return await change(tx)
