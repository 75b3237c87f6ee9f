"""The contract of TerminalEvents: activity of terminals."""

from collections.abc import Mapping

from sm.terminals.base import Terminals
from tests.terminals.contract.samples import FOREVER, ID, NAME
from tests.terminals.world import World, sh, until, until_async


async def test_on_activity_reports_the_sessions_that_printed(terminals: Terminals, world: World) -> None:
    reports: list[Mapping[str, int]] = []
    terminals.on_activity(reports.append)
    quiet = await terminals.open(ID, NAME, "/", FOREVER)
    await terminals.open("99999999", "command-99999999", "/", sh("while read line; do echo $line; done"))

    def times_of(session_id: str) -> set[int]:
        return {report[session_id] for report in reports if session_id in report}

    await until(lambda: times_of(ID) and times_of("99999999"))

    async def printed_again() -> bool:
        # window_activity counts whole seconds: type until one second has passed.
        await terminals.type_line("command-99999999", "ping")
        return len(times_of("99999999")) > 2

    await until_async(printed_again)
    assert sum(ID in report for report in reports) == 1
    assert (await terminals.snapshot())[ID].pid == quiet.pid
