"""Holds the state of one observed agent process, and the looks that are due."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from sm.core.models import Process, Session
from sm.core.observation import Observation
from sm.monitor.evidence import Ledger
from sm.providers.readers import Readers

log = logging.getLogger(__name__)

_STARTING_LOOKS_S = (1.0, 2.0, 4.0, 7.0, 11.0)
"""When to look at the screen of an agent that has not said that it is ready, in seconds after its start."""
_STARTING_EVERY_S = 15.0
_FIRST_LOOK_S = 0.1
_LOOKS_AGAIN = 5
USES_MAX = 200


class ToolUses:
    """The uses of tools that are under way: claude begins several at once, and asks about some of them."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[str, str]] = {}

    def begins(self, id: str, who: str, what: str) -> None:
        """`who`: the sub-agent, empty for the agent itself; `what`: a digest of the tool and its arguments."""
        self._begun[id] = who, what
        if len(self._begun) > USES_MAX:  # of the oldest the end was never heard
            del self._begun[next(iter(self._begun))]

    def ends(self, id: str) -> None:
        self._begun.pop(id, None)

    def forget(self) -> None:
        self._begun.clear()

    def turn_ends(self) -> None:
        """What the agent itself has begun is over; a sub-agent may go on."""
        self._begun = {id: use for id, use in self._begun.items() if use[0]}

    def find(self, who: str, what: str) -> str | None:
        """The id of this use; None when it is not known, and when there are several: any may be the one."""
        found = [id for id, use in self._begun.items() if what and use == (who, what)]
        return found[0] if len(found) == 1 else None


@dataclass
class Agent:
    """Times are seconds since the epoch; `now` is an argument."""

    session_id: str
    readers: Readers
    ledger: Ledger
    started_s: float
    process: Process | None = None
    state_file: str | None = None
    tty: str | None = None
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """Of its process; None until `Sources.prepare` has looked."""
    real_dir: str = ""
    """Its working directory without links: claude names the file after that."""
    expects_turn: bool = False
    ready: bool = False
    poked: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None
    state_due: bool = True
    state_changed_ns: int = 0
    """When the state file was written that was read last."""
    hooks_waiting: int = 0
    transcript_due: bool = True
    screen_due_s: float | None = None
    looks: int = 0
    unread: int = 0
    """How often in a row its screen showed nothing that is known."""
    activity: str | None = None
    hook_seen: bool = False
    uses: ToolUses = field(default_factory=ToolUses)

    # What is known

    def add(self, said: Observation, now: float) -> bool:
        """Take note of it; False when it came too late. The log can be replayed (tests/monitor/test_recorded.py)."""
        # A source that an agent can write to may name any time; one to come would silence it until then.
        said = replace(said, at=min(said.at, now))
        what = {f"sm_{name}": value for name, value in asdict(said).items() if name != "reason"}
        log.debug("observed", extra={"sm_session": self.session_id, **what})
        return self.ledger.add(said, now)

    def transcript(self, session: Session) -> str | None:
        """Where its transcript is, or should be when it has not said so (no hook of it was heard)."""
        if session.transcript:
            return session.transcript
        transcripts = self.readers.transcripts
        if transcripts is None or session.conversation is None or self.environment is None:
            return None
        return transcripts.path(self.environment, self.real_dir, session.conversation)

    # What is due

    def poke(self, *, state: bool = False, transcript: bool = False, screen_s: float | None = None) -> None:
        """There is something to look at, at its screen not before `screen_s`: whoever follows it wakes up."""
        self.state_due |= state
        self.transcript_due |= transcript
        if screen_s is not None and (self.screen_due_s is None or screen_s < self.screen_due_s):
            self.screen_due_s = screen_s
        self.poked.set()

    def drawn(self, at: float) -> None:
        """It has begun to draw something, which is there at `at`."""
        self.unread = 0
        self.poke(screen_s=at)

    def half_drawn(self, now: float) -> None:
        """Its screen shows nothing that is known, or not all of it: soon there may be more."""
        if self.unread < _LOOKS_AGAIN:
            self.poke(screen_s=now + _FIRST_LOOK_S * 2**self.unread)
            self.unread += 1

    def look_while_it_starts(self, now: float) -> None:
        """Plan the next look at the screen of one that has not said that it is ready."""
        if self.ready or self.screen_due_s is not None:
            return
        since = now - self.started_s
        due = next((at for at in _STARTING_LOOKS_S[self.looks :] if at > since - 1.0), None)
        self.looks += 1
        self.screen_due_s = now + _STARTING_EVERY_S if due is None else self.started_s + due

    def pause_s(self, now: float, look_s: float | None) -> float | None:
        """How long nothing has to be looked at unless something tells of a change; None: for ever.

        `look_s`: seconds until what is known may mean something else by itself.
        """
        screen_s = None if self.screen_due_s is None else self.screen_due_s - now
        waits = [wait for wait in (look_s, screen_s) if wait is not None]
        return max(0.02, min(waits)) if waits else None
