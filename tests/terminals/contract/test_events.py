"""The contract of TerminalEvents: activity of terminals, and the clients that show them."""

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


async def test_on_viewers_reports_the_clients_that_show_a_terminal(
    terminals: Terminals, world: World
) -> None:
    reports: list[Mapping[str, frozenset[str]]] = []
    terminals.on_viewers(reports.append)
    await terminals.open(ID, NAME, "/", FOREVER)
    await terminals.open("99999999", "command-99999999", "/", FOREVER)
    async with world.attached(terminals.attach_command(NAME)) as pid:
        await until(lambda: reports)
        ((session_id, clients),) = reports[0].items()
        assert session_id == ID
        pids = await terminals.client_pids()
        assert [pids[client] for client in clients] == [pid]
    await until(lambda: reports[1:] == [{ID: frozenset()}])


async def test_on_viewers_reports_clients_that_were_attached_before(world: World) -> None:
    # One daemon after the other: what one of them does while the other connects crashes tmux 3.3a.
    async with world.terminals() as terminals:
        await terminals.open(ID, NAME, "/", FOREVER)
    async with world.attached(terminals.attach_command(NAME)):
        seen: list[Mapping[str, frozenset[str]]] = []
        async with world.terminals() as next_daemon:
            next_daemon.on_viewers(seen.append)
            await next_daemon.snapshot()
            await until(lambda: seen)
        assert list(seen[0]) == [ID]
