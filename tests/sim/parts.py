"""Parts that a random fleet may have around it. Each is in some of the fleets only, since it takes time."""

import random
from enum import StrEnum


class Part(StrEnum):
    VIEWS = "views"
    """Clients that follow the events and the rows of sessions."""
    PHONE = "phone"
    """An owner who uses Telegram."""
    TOOLS = "tools"
    """Agents that use the tools of sm through `sm mcp`."""
    SANDBOXES = "sandboxes"
    """Agents in containers, and an engine."""
    WEBHOOK = "webhook"
    """A receiver of webhooks."""


_SHARES = {
    Part.VIEWS: 0.25,
    Part.PHONE: 0.2,
    Part.TOOLS: 0.2,
    Part.SANDBOXES: 0.15,
    Part.WEBHOOK: 0.15,
}
"""The share of the seeds whose fleets have the part."""


def parts_of(seed: int) -> frozenset[Part]:
    chance = random.Random(f"parts {seed}")
    return frozenset([part for part, share in _SHARES.items() if chance.random() < share])
