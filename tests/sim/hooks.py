"""The hooks of a played agent: `sm hook` as a process of its own, with faults on the way to the daemon."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from sm.cli.hook.spool import HOOKS_MAX_BYTES, write
from sm.cli.hook.transport import is_final
from sm.cli.instance import Instance
from sm.client.http import DaemonAway, new_key
from sm.errors import SmError
from tests.sim.clocks import Clocks
from tests.sim.programs import Running

_ANSWER_S = 0.6
"""As in sm.cli.hook.emit."""
_WAIT_S = 20
_PAUSES_S = (0.5, 1.0, 2.0)
_START_S = 0.015

HookFault = Callable[[str], str | None]
"""Names the fault of the next event of a session: `late`, `twice`, `never`, or None if it has none."""


def _stamp(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")


class PlayedHooks:
    """Sends the events of one program. `fault` is asked for each event."""

    def __init__(self, program: Running, clocks: Clocks, fault: HookFault) -> None:
        self._program = program
        self._clocks = clocks
        self._fault = fault
        self._late: set[asyncio.Task[bool]] = set()

    def body(self, payload: Mapping[str, Any]) -> dict[str, object]:
        return {"provider": "claude", "emitted_at": _stamp(self._clocks.wall()), "payload": payload}

    async def send(self, payload: Mapping[str, Any]) -> None:
        """Run the hook of an event, and wait for its end as claude does."""
        body, key = self.body(payload), new_key()
        await asyncio.sleep(_START_S)
        match self._fault(self._program.session_id):
            case "never":
                return
            case "late":  # claude gave up waiting, and the event arrives after later ones
                task = asyncio.get_running_loop().create_task(self._deliver_late(body, key))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
                return
            case "twice":  # the answer was lost on the way, so the hook also spools the event
                await self._deliver(body, key)
                self._spool(body, key)
                return
            case _:
                await self._deliver(body, key)

    async def _deliver_late(self, body: Mapping[str, object], key: str) -> bool:
        await asyncio.sleep(7)
        return await self._deliver(body, key)

    async def _deliver(self, body: Mapping[str, object], key: str) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_S):
                status, _ = await self._program.sm.exchange("POST", "/v1/hooks", body, key)
        except (DaemonAway, TimeoutError):
            status = 0
        if is_final(status):
            return True
        self._spool(body, key)
        return False

    def _spool(self, body: Mapping[str, object], key: str) -> None:
        instance = Instance(self._program.environ)
        at = str(body["emitted_at"])
        with suppress(SmError):  # the disk or the spool is full, and nobody reads the error of a hook
            write(instance, "hook", body, key, emitted_at=at, max_bytes=HOOKS_MAX_BYTES, durable=False)

    async def dialog(self, payload: Mapping[str, Any]) -> str | None:
        """Wait for the answer to a dialog, as sm.cli.hook.permission. Returns None if the dialog is over.

        The program cancels the wait when the dialog closes in another way.
        """
        body, key = self.body(payload), new_key()
        event, is_spooled, failures = {**body, "wait_s": _WAIT_S}, False, 0
        await asyncio.sleep(_START_S)
        while True:
            try:
                answer = await self._program.sm.post("/v1/hooks/dialog", event, key=key)
            except DaemonAway:
                if not is_spooled:
                    self._spool(body, key)
                    is_spooled = True
                await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
                failures += 1
                continue
            except SmError:
                return None
            failures = 0
            if answer["state"] == "over":
                return None
            if answer["state"] == "decided":
                with suppress(SmError):
                    await self._program.sm.post("/v1/hooks/dialog/taken", {}, key=key)
                return str(answer["output"])

    def end(self) -> None:
        for task in tuple(self._late):
            task.cancel()
