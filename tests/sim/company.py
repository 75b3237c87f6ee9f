"""The parts around a fleet: those of its seed begin before the script, and have promises of their own."""

import sqlite3
from collections.abc import Callable, Collection
from contextlib import ExitStack, closing

from tests.sim.parts import Part
from tests.sim.phone import Phone
from tests.sim.sandboxed import Sandboxed
from tests.sim.told import Told
from tests.sim.tool_users import ToolUsers
from tests.sim.views import Views
from tests.sim.webhook import Webhook
from tests.sim.world import World


class Company:
    """The parts of one world, or None if the fleet is without it."""

    def __init__(
        self,
        world: World,
        parts: Collection[Part],
        told: Told,
        say: Callable[[str], None],
        open: ExitStack,
    ) -> None:
        self._world = world
        self.views = Views(world) if Part.VIEWS in parts else None
        self.phone = Phone(world, told, say, open) if Part.PHONE in parts else None
        self.tools = ToolUsers(world, told, say, open) if Part.TOOLS in parts else None
        self.sandboxed = Sandboxed(world, told, say) if Part.SANDBOXES in parts else None
        self.webhook = Webhook(world, say, open) if Part.WEBHOOK in parts else None

    async def begin(self, seed: int) -> None:
        """Start what the daemon finds at its start."""
        if self.sandboxed is not None:
            self.sandboxed.begin()
        if self.webhook is not None:
            await self.webhook.begin()
        if self.phone is not None:
            await self.phone.begin(progress=seed % 2 == 0)

    async def greet(self) -> None:
        """Begin what needs a daemon."""
        if self.sandboxed is not None:
            await self.sandboxed.greet()
        if self.phone is not None:
            await self.phone.greet()
        if self.views is not None:
            await self.views.begin()

    def heal(self) -> None:
        """End the faults of all parts."""
        if self.sandboxed is not None:
            self.sandboxed.heal()
        if self.webhook is not None:
            self.webhook.heal()
        if self.phone is not None:
            self.phone.heal()

    async def broken(self) -> list[str]:
        """Name each promise that does not hold around the daemon, which has settled."""
        found = [] if self.phone is None else await self.phone.broken()
        if self.tools is not None:
            found += self.tools.broken()
        with closing(sqlite3.connect(self._world.paths.database)) as db:
            found += [] if self.sandboxed is None else self.sandboxed.broken(db)
            found += [] if self.webhook is None else self.webhook.broken(db)
            found += [] if self.views is None else await self.views.broken(db)
        return found
