"""Holds the state of one observed agent process and the reads that are due."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, field, replace

from sm.core.dataclass import dataclass
from sm.core.models import Process, Session
from sm.core.observation import Observation
from sm.core.turns import TurnWork
from sm.linux.jobs import InputLoss
from sm.monitor.evidence import Ledger
from sm.monitor.own_tools import OwnTools
from sm.monitor.transcripts import Root
from sm.providers.base import Fork
from sm.providers.readers import HookEvent, Readers
from sm.sandboxes.home import ContainerHome

log = logging.getLogger(__name__)

_STARTING_LOOKS_S = (1.0, 2.0, 4.0, 7.0, 11.0)
"""Times to read the screen of an agent that has not reported ready, in seconds after its start."""
_STARTING_EVERY_S = 15.0
_STUCK_AFTER_S = 10.0
"""A start takes about a second on an idle machine. After this time, an unchanged screen waits for a person."""
_UNCHANGED_FOR_S = 2.0
_FIRST_LOOK_S = 0.1
_LOOKS_AGAIN = 5
USES_MAX = 200
_HELPER_FOR_S = 60.0
_NOT_LOGGED = ("reason", "answer")
"""Fields of an observation that hold words of the agent."""


class ToolUses:
    """The tool uses in progress: claude starts several at once, and asks for permission for some of them."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[str, str]] = {}

    def begin(self, id: str, agent: str, digest: str) -> None:
        """`agent`: the sub-agent, empty for the agent itself; `digest`: of the tool and its arguments."""
        self._begun[id] = agent, digest
        if len(self._begun) > USES_MAX:  # the end of the oldest use was never reported
            del self._begun[next(iter(self._begun))]

    def end(self, id: str) -> None:
        self._begun.pop(id, None)

    def forget(self) -> None:
        self._begun.clear()

    def end_turn(self) -> None:
        """End the uses of the agent itself; a sub-agent may continue."""
        self._begun = {id: use for id, use in self._begun.items() if use[0]}

    def find(self, agent: str, digest: str) -> str | None:
        """The id of this use; None when the use is unknown or ambiguous."""
        ids = [id for id, use in self._begun.items() if digest and use == (agent, digest)]
        return ids[0] if len(ids) == 1 else None


class Helpers:
    """The sub-agents that were seen at work, by their ids, with the time of their last report."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._most: int | None = None
        """How many run in the background, as the agent said at the end of its last turn, or None if unknown."""

    def follow(self, event: HookEvent, who: str, now: float) -> None:
        if event.sub_agents is not None:
            self._most = event.sub_agents
            if not event.sub_agents:
                self._seen.clear()
        if who:
            self._seen.pop(who, None)
            self._seen[who] = now
            if len(self._seen) > USES_MAX:
                del self._seen[next(iter(self._seen))]
        if event.sub_agent_ended:
            self._seen.pop(event.sub_agent_ended, None)

    def at_work(self, now: float) -> int:
        return max(sum(now - at < _HELPER_FOR_S for at in self._seen.values()), self._most or 0)


@dataclass
class Agent:
    """One observed agent. Times are seconds since the epoch; `now` is an argument."""

    session_id: str
    readers: Readers
    ledger: Ledger
    started_s: float
    process: Process | None = None
    state_file: str | None = None
    tty: str | None = None
    published: Process | None = None
    """`process` with the pid that the agent itself has, which differs in a container."""
    fork_in: Callable[[Sequence[str]], Fork | None] = lambda argv: None
    """As `Provider.fork_in`."""
    begins: Collection[str] = ()
    """The arguments of the session's first process if it began a conversation: they name it. Empty for a fork."""
    fork: Fork | None = None
    """The copy of a conversation with which the session began, or None if it did not begin with one."""
    home: ContainerHome | None = None
    """The home directory of the agent's container, or None if it runs on this host."""
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    """The environment of the process; None until `Sources.prepare` has run."""
    real_dir: str = ""
    """The working directory without links, as the agent sees it: claude names the transcript after this path."""
    expects_turn: bool = False
    has_own_tools: bool = False
    """As `Launch.has_own_tools`."""
    ready: bool = False
    poked: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None
    link_task: asyncio.Task[None] | None = None
    link_lost: str | None = None
    """Why the link says nothing about the agent's state now, or None if it does, or if there are no links."""
    state_due: bool = True
    state_changed_ns: int = 0
    """The modification time of the state file at the last read."""
    hooks_waiting: int = 0
    transcript_due: bool = True
    screen_due_s: float | None = None
    looks: int = 0
    unread: int = 0
    """How many reads in a row found an unknown screen."""
    activity: str | None = None
    hook_seen: bool = False
    last_hook_s: float = 0.0
    """The time at which the last hook of this process was emitted."""
    watched_s: float = 0.0
    """The time since which this daemon observes the process."""
    permission_mode: str = ""
    """The last one that a hook of this process named."""
    ends: bool = False
    """The agent has announced its end."""
    input_loss: InputLoss | None = None
    """The last read of the process, which counts once it has lasted."""
    input_lost_s: float = 0.0
    transcript_turn: str | None = None
    """The id of the last turn that the transcript names."""
    lost_before: bool = False
    """An earlier daemon has recorded the loss, so it has lasted long enough."""
    start_words: str = ""
    """The text on the screen at the last read before the agent was ready."""
    uses: ToolUses = field(default_factory=ToolUses)
    kept_end_s: float | None = None
    """The time of the turn's end that is stored because the status does not follow it yet, or None without one."""
    may_have_missed_end: bool = False
    """A turn may have ended while no daemon ran, and no source has reported the end to this daemon."""
    work: TurnWork = field(default_factory=TurnWork)
    """The work since the last prompt, as far as this daemon has seen its hooks."""
    helpers: Helpers = field(default_factory=Helpers)
    tools: OwnTools = field(init=False)

    def __post_init__(self) -> None:
        self.tools = OwnTools(self.started_s)
        self.watched_s = self.started_s

    def add(self, observation: Observation, now: float) -> bool:
        """Record an observation; False for a stale one. tests/monitor/test_recorded.py can replay the log."""
        # An agent can write any time into its sources. A future time would silence the source until then.
        observation = replace(observation, at=min(observation.at, now))
        if log.isEnabledFor(logging.DEBUG):
            fields = {
                f"sm_{name}": value for name, value in asdict(observation).items() if name not in _NOT_LOGGED
            }
            log.debug("observed", extra={"sm_session": self.session_id, **fields})
        return self.ledger.add(observation, now)

    def follow_work(self, event: HookEvent) -> None:
        """Count what a hook reports of the work in the current turn."""
        observation = event.observation
        if observation is not None and observation.opens:
            self.work = self.work.begin(event.task)
        if event.tool_started is not None and observation is not None and not observation.who:
            self.work = self.work.start_tool()
        if event.tool_failed is not None:
            self.work = self.work.end_tool(failed=event.tool_failed)

    def has_begun(self, session: Session, transcript: str) -> bool:
        """True if the session itself began the conversation in this file, so that all of its lines are its own."""
        conversation = session.conversation
        return conversation is not None and conversation in self.begins and conversation in transcript

    def own_since(self, session: Session, transcript: str) -> str:
        """The time of the first lines of this file that are the session's own, or empty if all are."""
        # A person may resume any old conversation (`/resume`). The times do not decide about other lines: the system
        # clock may be set back. Those of a fork decide only if its original is gone. An adopted agent has its own
        # earlier lines.
        if session.token_hash is None or self.has_begun(session, transcript):
            return ""
        # A fork that ended before its first prompt copies the conversation again, as it is then.
        if self.fork is not None and session.runs > 1 and session.started_at is not None:
            return session.started_at
        return session.created_at

    def transcript(self, session: Session) -> str | None:
        """The path of the transcript on this host. Until a hook reports it, the path where it should be."""
        if session.transcript:
            return session.transcript
        transcripts = self.readers.transcripts
        if transcripts is None or session.conversation is None or self.environment is None:
            return None
        path = transcripts.path(self.environment, self.real_dir, session.conversation)
        return path if self.home is None else self.home.host_path(path)

    def transcript_root(self) -> Root | None:
        """The directory below which its transcripts lie, or None if it has none."""
        if self.readers.transcripts is None or self.environment is None:
            return None
        if self.home is not None:
            return Root(self.home.directory, contained=True)
        return Root(self.readers.transcripts.root(self.environment))

    def poke(self, *, state: bool = False, transcript: bool = False, screen_s: float | None = None) -> None:
        """Wake the observer to read the given sources, the screen not before `screen_s`."""
        self.state_due |= state
        self.transcript_due |= transcript
        if screen_s is not None and (self.screen_due_s is None or screen_s < self.screen_due_s):
            self.screen_due_s = screen_s
        self.poked.set()

    def read_drawing(self, at: float) -> None:
        """Read the screen at `at`, when the agent has finished drawing."""
        self.unread = 0
        self.poke(screen_s=at)

    def retry_screen(self, now: float) -> None:
        """Read an unknown or half-drawn screen again soon, with back-off."""
        if self.unread < _LOOKS_AGAIN:
            self.poke(screen_s=now + _FIRST_LOOK_S * 2**self.unread)
            self.unread += 1

    def plan_startup_read(self, now: float) -> None:
        """Plan the next read of the screen of an agent that has not reported ready."""
        if self.ready or self.screen_due_s is not None:
            return
        since = now - self.started_s
        due = next((at for at in _STARTING_LOOKS_S[self.looks :] if at > since - 1.0), None)
        self.looks += 1
        self.screen_due_s = now + _STARTING_EVERY_S if due is None else self.started_s + due

    def is_stuck_at_start(self, words: str, now: float) -> bool:
        """True if the same `words` are on the screen again, and the agent should have started long ago.

        `words`: the visible text of an agent that has reported nothing and shows no input box, or empty without any.
        """
        unchanged, self.start_words = words == self.start_words, words
        late = now - self.started_s >= _STUCK_AFTER_S
        if words and late and not unchanged:
            self.poke(screen_s=now + _UNCHANGED_FOR_S)
        return bool(words) and late and unchanged

    def pause_s(self, now: float, look_s: float | None) -> float | None:
        """Seconds until the next read is due without a reported change, or None if no read is due.

        `look_s`: seconds until the verdict may change without new evidence.
        """
        screen_s = None if self.screen_due_s is None else self.screen_due_s - now
        waits = [wait for wait in (look_s, screen_s) if wait is not None]
        return max(0.02, min(waits)) if waits else None
