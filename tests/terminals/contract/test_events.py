"""The contract of TerminalEvents: activity of terminals."""

from collections.abc import Mapping

from sm.terminals.base import Terminals
from tests.terminals.contract.samples import FOREVER, ID, NAME
from tests.terminals.world import World, sh, until, until_async


async def test_activity_names_the_sessions_that_printed(terminals: Terminals, world: World) -> None:
    told: list[Mapping[str, int]] = []
    terminals.on_activity(told.append)
    quiet = await terminals.open(ID, NAME, "/", FOREVER)
    await terminals.open("99999999", "command-99999999", "/", sh("while read line; do echo $line; done"))

    def seen(session_id: str) -> set[int]:
        return {moved[session_id] for moved in told if session_id in moved}

    await until(lambda: seen(ID) and seen("99999999"))

    async def moved_again() -> bool:
        # window_activity has whole seconds: type until one has passed.
        await terminals.type_line("command-99999999", "ping")
        return len(seen("99999999")) > 2

    await until_async(moved_again)
    assert sum(ID in moved for moved in told) == 1
    assert (await terminals.snapshot())[ID].pid == quiet.pid
