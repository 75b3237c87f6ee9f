"""Weighs the evidence of all sources for one agent, and concludes its activity. Pure: the clock is an argument.

Sources often disagree: a hook may be lost, a title may lag, a screen may quote another one. The ledger keeps the last
observation of each source, and `Ledger.verdict` weighs them (docs/lifecycle.md). Any source can make an agent busy or
blocked immediately. For idle, a source must report the end of the turn, or report idle for some time.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import replace

from sm.core.dataclass import dataclass
from sm.core.observation import Activity, Observation, Source


@dataclass(frozen=True, slots=True)
class Entry:
    """The last observation of a source."""

    observation: Observation
    since: float
    """The time since which the source has reported this activity."""
    seen: float
    """The time of the last read in which the source showed this activity."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The believed observation, and why each overruled source was not believed."""

    observation: Observation
    overruled: Mapping[Source, str]


AGREEMENT_S = 1.5
"""How long weak evidence of idle must last when no source reports the turn's end."""
TITLE_EVERY_S = 1.0
"""How often a title is read: an unchanged title may have changed since."""
PUBLISHED_S = 0.25
"""How long the agent's state file must say idle: it may flip between two turns."""
SETTLED_S = 1.0
"""An agent publishes a change within 0.5 s even on a busy machine: a state file is current after this time."""
UNPUBLISHED_S = 3.0
"""How long a state file must say idle after a hook reported activity: the turn may have been interrupted at once."""
LAG_S = 0.4
"""A title and a screen lag: their observations count when they are newer by this much."""
STUCK_S = 5.0
"""A state file that says busy this long after a turn's end, while the agent looks idle, is not updated any more.

A state file that still says waiting this long after the end of the dialog may mean another dialog.
"""
FIRST_TURN_SETTLES_S = 0.5
"""How long an agent may take to draw its box anew after it has accepted the prompt of its start."""
AHEAD_S = 1.0
"""An observation this far in the future dates from before the clock was set back."""
_TURNS_KEPT = 64
FRESH_S = 120.0
"""A session is stale when no source was read for this time."""


class Ledger:
    """The evidence for one session. `off`: sources that are not believed (for tests and measurements)."""

    def __init__(self, off: Collection[Source] = ()) -> None:
        self._off = frozenset(off)
        self._entries: dict[Source, Entry] = {}
        self._turn: str | None = None
        self._past: deque[str] = deque(maxlen=_TURNS_KEPT)
        self._dialogs: dict[tuple[str, str | None], Observation] = {}
        """The open dialogs, by sub-agent (empty for the agent itself) and tool use."""
        self._last_dialog: tuple[float, float] | None = None
        """When the last dialog opened that was closed by its own tool use, and when it closed."""
        self._worked_at = 0.0
        """The time of the last report of activity by a source other than hooks: the expected work has begun."""
        self._first_turn_seen = float("-inf")
        """The time of the report that the turn announced by a hook had begun."""

    @property
    def entries(self) -> Mapping[Source, Entry]:
        return self._entries

    def add(self, observation: Observation, now: float | None = None) -> bool:
        """Record an observation at `now`; False if stale: older than the last one, or the end of an earlier turn.

        A dialog about a known tool use is never stale: other tools of the same message may overtake it.
        """
        if observation.source in self._off:
            return False
        seen = observation.at if now is None else now
        if self.is_late(observation.source, observation.at, seen) and not observation.asks_about_use:
            return False
        known = self._entries.get(observation.source)
        works = observation.source not in (Source.PROCESS, Source.HOOK)
        if works and observation.activity is not Activity.IDLE:
            self._worked_at = max(self._worked_at, observation.at)
        if observation.source is Source.HOOK:
            if not self._in_turn(observation):
                return False
            observation = self._dialog_first(observation)
        is_expected = self._expects_turn(seen)
        same = (
            known is not None and known.observation.activity is observation.activity and not observation.final
        )
        since = known.since if same and known is not None else observation.at
        self._entries[observation.source] = Entry(observation, since, max(observation.at, seen))
        if is_expected and not self._expects_turn(seen):
            self._first_turn_seen = seen
        return True

    def is_late(self, source: Source, at: float, now: float) -> bool:
        """True if the source has an observation newer than `at`. Ignores one ahead of `now`."""
        known = self._entries.get(source)
        return known is not None and at < known.observation.at <= now + AHEAD_S

    def _in_turn(self, observation: Observation) -> bool:
        """False for the end of an earlier turn. Any observation of a new turn is believed."""
        if observation.who or observation.turn is None or observation.turn == self._turn:
            return True
        if observation.turn in self._past:
            return observation.activity is not Activity.IDLE
        if self._turn is not None:
            self._past.append(self._turn)
        self._turn = observation.turn
        return True

    def _dialog_first(self, observation: Observation) -> Observation:
        """The open dialog, if there is one: sub-agents and parallel tools of the same message do not hide it.

        A dialog closes when its tool use continues, or when the turn ends.
        """
        match observation.activity:
            case Activity.BLOCKED:
                self._dialogs[observation.who, observation.use] = observation
            case Activity.BUSY if not observation.opens:
                for who, use in list(self._dialogs):
                    if who == observation.who and (observation.use is None or use in (None, observation.use)):
                        closed = self._dialogs.pop((who, use))
                        if use is not None and use == observation.use:
                            self._last_dialog = closed.at, observation.at
            case _:
                self._dialogs.clear()
        dialogs = list(self._dialogs.values())
        return dialogs[-1] if dialogs else observation

    def end_use(self, use: str) -> None:
        """End a tool use: its dialog is closed from the next hook on."""
        self._dialogs = {key: dialog for key, dialog in self._dialogs.items() if key[1] != use}

    @property
    def failure(self) -> Observation | None:
        """The report that the last turn failed, or None if it did not fail or a turn has begun since."""
        ends = [self._entries[s].observation for s in (Source.HOOK, Source.TRANSCRIPT) if s in self._entries]
        last = max(ends, key=lambda observation: observation.at, default=None)
        return last if last is not None and last.fault is not None else None

    @property
    def finish(self) -> Observation | None:
        """The report of a source other than the agent's hooks that the agent finished its last turn, or None."""
        entry = self._entries.get(Source.TRANSCRIPT)
        return entry.observation if entry is not None and entry.observation.finished else None

    def mark_read(self, source: Source, now: float) -> None:
        """Note that the source was read without a change."""
        if (entry := self._entries.get(source)) is not None:
            self._entries[source] = replace(entry, seen=now)

    def forget(self, *sources: Source) -> None:
        """Drop the evidence of these sources, by default of all: a file is gone, or the conversation is another."""
        for source in sources or tuple(Source):
            self._entries.pop(source, None)
            if source is Source.HOOK:
                self._dialogs.clear()

    def verdict(self, now: float) -> Verdict | None:
        """The verdict at `now`; None without evidence.

        From the strongest source to the weakest, each may overrule the one believed so far. The process is the
        exception: it is read again and again, and overrules all others while it reads no input.
        """
        others = self._verdict_of_agent(now)
        entry = self._entries.get(Source.PROCESS)
        if entry is None:
            return others
        if (
            others is not None
            and others.observation.activity is Activity.BUSY
            and not entry.observation.final
        ):
            return Verdict(others.observation, {**others.overruled, Source.PROCESS: "its turn continues"})
        overruled = {
            source: f"the {Source.PROCESS} takes precedence"
            for source, other in self._entries.items()
            if other.observation.activity is not entry.observation.activity
        }
        return Verdict(entry.observation, overruled)

    def _verdict_of_agent(self, now: float) -> Verdict | None:
        """The verdict of all sources but the process."""
        believed: Entry | None = None
        overruled: dict[Source, str] = {}
        for source in Source:
            entry = self._entries.get(source)
            if entry is None or source is Source.PROCESS:
                continue
            if believed is None:
                believed = entry
                continue
            if entry.observation.activity is believed.observation.activity:
                continue
            why = self._overrules(entry, believed, now)
            if why is None:
                overruled[source] = f"the {believed.observation.source} takes precedence"
            else:
                overruled[believed.observation.source] = why
                believed = entry
        return None if believed is None else Verdict(believed.observation, overruled)

    def _overrules(self, entry: Entry, believed: Entry, now: float) -> str | None:
        """The reason to believe the weaker `entry`, which has another activity, or None to keep `believed`."""
        if believed.observation.source is Source.PROTOCOL:
            return None  # the program itself tells every change while its link is open
        observation, at = entry.observation, believed.observation.at
        # On a busy machine the title shows the first turn seconds before its hook and the state file do.
        is_older = self._worked_at <= at or observation.at <= self._worked_at
        awaits = now - at < believed.observation.patience_s and is_older
        if awaits and observation.activity is Activity.IDLE and not observation.final:
            return None
        match observation.source:
            case Source.STATE_FILE:
                return self._published(entry, believed, now)
            case Source.SCREEN if (
                observation.activity is Activity.BLOCKED and believed.observation.activity is Activity.IDLE
            ):
                # The agent publishes idle while a dialog is open that a person opened.
                return f"the {observation.source} shows a dialog" if observation.at > at + LAG_S else None
            case _ if Source.STATE_FILE in self._entries:
                return None  # the state file outweighs titles and screens
            case _ if observation.activity is not Activity.IDLE:
                lag = 0.0 if observation.source is Source.TRANSCRIPT else LAG_S
                return (
                    f"the {observation.source} has reported {observation.activity} since then"
                    if observation.at > at + lag
                    else None
                )
            case _ if observation.doubtful and believed.observation.activity is Activity.BLOCKED:
                return None
            case _ if observation.final:
                return (
                    f"the {observation.source} reports the end of the turn" if observation.at > at else None
                )
            case _:
                # A title reports only changes; a screen is seen when it is read.
                until = now - TITLE_EVERY_S if observation.source is Source.TITLE else entry.seen
                agreed_s = until - max(entry.since, at)
                return (
                    f"the {observation.source} has reported idle for {agreed_s:.1f} s"
                    if agreed_s >= AGREEMENT_S
                    else None
                )

    def _published(self, entry: Entry, believed: Entry, now: float) -> str | None:
        """The reason to believe the state file and not `believed`, or None to keep `believed`."""
        source, activity, at = entry.observation.source, entry.observation.activity, believed.observation.at
        if entry.since > at:
            settled = activity is not Activity.IDLE or now - entry.since >= PUBLISHED_S
            return f"the {source} has reported {activity} since then" if settled else None
        match activity:
            case Activity.BUSY if believed.observation.activity is Activity.IDLE:
                # A hook of the user may make a turn go on after its end. The agent would publish a real end.
                stuck = now - at >= STUCK_S and self._looks_idle(at)
                return None if stuck else f"the {source} still reports {activity}"
            case Activity.IDLE:
                # A starved agent publishes a new turn seconds after its hook, while its title moves already.
                confirmed = entry.seen - at >= UNPUBLISHED_S and not self._looks_busy(at)
            case Activity.BLOCKED if self._is_of_closed_dialog(entry):
                confirmed = entry.seen - at >= STUCK_S
            case _:
                confirmed = entry.seen - at >= SETTLED_S
        return f"the {source} still reports {activity}" if confirmed else None

    def _is_of_closed_dialog(self, entry: Entry) -> bool:
        """True if the state file reports a dialog whose end a starved agent has not published yet."""
        if self._last_dialog is None:
            return False
        opened_at, closed_at = self._last_dialog
        return entry.since > opened_at - SETTLED_S and entry.observation.at <= closed_at

    def _looks_busy(self, since: float) -> bool:
        """True if the agent's screen or title shows activity, seen after `since`."""
        looks = [self._entries[s] for s in (Source.TITLE, Source.SCREEN) if s in self._entries]
        return any(e.observation.activity is Activity.BUSY and e.seen > since for e in looks)

    def _looks_idle(self, since: float) -> bool:
        looks = [self._entries[s] for s in (Source.TITLE, Source.SCREEN) if s in self._entries]
        return bool(looks) and all(e.observation.activity is Activity.IDLE and e.seen > since for e in looks)

    def next_look(self, now: float) -> float | None:
        """Seconds until time, or a read without a change, may change the verdict. None if only new evidence can."""
        believed = self.verdict(now)
        if believed is None:
            return None
        waits = (PUBLISHED_S, SETTLED_S, AGREEMENT_S, AGREEMENT_S + TITLE_EVERY_S, UNPUBLISHED_S, STUCK_S)
        dues = [
            max(entry.since, believed.observation.at) + wait
            for entry in self._entries.values()
            if entry.observation.activity is not believed.observation.activity
            for wait in (*waits, believed.observation.patience_s)
        ]
        return min((due - now for due in dues if due > now), default=None)

    def awaits_first_turn(self, now: float) -> bool:
        """True until the agent has begun the turn that its last hook announced, and has drawn its box after that."""
        return self._expects_turn(now) or now - self._first_turn_seen < FIRST_TURN_SETTLES_S

    def _expects_turn(self, now: float) -> bool:
        hook, transcript = self._entries.get(Source.HOOK), self._entries.get(Source.TRANSCRIPT)
        return (
            hook is not None
            and now - hook.observation.at < hook.observation.patience_s
            and (transcript is None or transcript.observation.at <= hook.observation.at)
        )

    def is_stale(self, now: float) -> bool:
        return all(now - entry.seen > FRESH_S for entry in self._entries.values())
