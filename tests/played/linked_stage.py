"""An instance whose agents have a link, and the words of such an agent in their usual order."""

import pytest

from sm.core.faults import Fault
from sm.core.observation import Activity, Observation, Source
from sm.core.states import RequestKind
from sm.providers.links import (
    Answerer,
    MessageUpdate,
    OfferedDecision,
    Receipt,
    RequestId,
    RequestOpened,
    RequestResolved,
    StateUpdate,
)
from sm.providers.readers import Dialog
from tests.registered.lines import register
from tests.registered.linked.links import PROGRAMS, LinkedProgram, SentText
from tests.sim.stage import Instance, stand_in

CONFIG = """
default_trust: direct
limits: {spawn_interval_s: 0}
"""
DECISIONS = (
    OfferedDecision("accept", "accept", approves=True),
    OfferedDecision("acceptForSession", {"for": "session"}, approves=True),
    OfferedDecision("cancel", "cancel", approves=False),
)


class LinkedStage(Instance):
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        register(monkeypatch)
        PROGRAMS.clear()
        super().__init__(config=CONFIG)
        self.world.programs.installed["linked"] = stand_in
        self.start_daemon()

    def kill_daemon(self) -> None:
        """As in `Instance`. The kernel closes the connections of the daemon."""
        super().kill_daemon()
        for program in PROGRAMS.values():
            program.link = None

    def agent(self, kind: str = "Linked", *arguments: str) -> "LinkedAgent":
        """Start an agent, whose program is idle."""
        agent = LinkedAgent(self, self.spawn(kind, *arguments)["session_id"])
        self.until(lambda: agent.program.link, "the link is open")
        agent.become_idle()
        self.in_status(agent.id, "idle")
        return agent


class LinkedAgent:
    def __init__(self, stage: LinkedStage, session_id: str) -> None:
        self.stage = stage
        self.id = session_id
        self.program = PROGRAMS.setdefault(session_id, LinkedProgram())
        self._turns = 0

    def now(self) -> float:
        return self.stage.now().timestamp()

    def observe(self, activity: Activity, reason: str, **more: object) -> StateUpdate:
        turn = f"turn-{self._turns}" if self._turns else None
        return StateUpdate(Observation(Source.PROTOCOL, activity, self.now(), reason, turn, **more))  # type: ignore[arg-type]  # names of fields

    def become_idle(self) -> None:
        self.program.say(self.observe(Activity.IDLE, "idle"))

    def begin_turn(self) -> None:
        self._turns += 1
        self.program.say(self.observe(Activity.BUSY, "a turn began", opens=True))

    def observe_busy(self) -> StateUpdate:
        return self.observe(Activity.BUSY, "works")

    def end_turn(self, answer: str = "", *, fault: Fault | None = None, finished: bool = True) -> None:
        said = self.observe(
            Activity.IDLE, "the turn ended", final=True, finished=finished, answer=answer, fault=fault
        )
        self.program.say(said)

    def ask(
        self,
        id: RequestId,
        dialog: Dialog | None = None,
        decisions: tuple[OfferedDecision, ...] = DECISIONS,
    ) -> None:
        """Ask for a permission, or open another dialog."""
        shown = dialog or Dialog(RequestKind.PERMISSION, "run", {"line": f"rm {id}"})
        opened = RequestOpened(id, shown, decisions, tool_use=f"use-{id}")
        self.program.requests[id] = opened
        self.program.say(opened, self.observe(Activity.BLOCKED, f"waits: {shown.tool}", use=f"use-{id}"))

    def resolve(self, id: RequestId, by: Answerer | None) -> None:
        del self.program.requests[id]
        self.program.say(RequestResolved(id, by), self.observe(Activity.BUSY, "got an answer"))

    def take(self, sent: SentText, receipt: Receipt = Receipt.SUBMITTED, reason: str = "") -> None:
        self.program.say(MessageUpdate(sent.id, receipt, self.now(), reason))

    def sent(self, count: int) -> SentText:
        """Wait until the program has got so many messages; return the last one."""
        self.stage.until(lambda: len(self.program.sent) >= count, f"{count} messages are sent")
        return self.program.sent[count - 1]

    def reconnect(self) -> None:
        self.program.is_up = True
        self.stage.until(lambda: self.program.link, "the link is open again")
