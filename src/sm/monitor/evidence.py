"""Weighs the evidence of all sources for one agent, and concludes its activity. Pure: the clock is an argument.

Sources disagree all the time: a hook is lost, a title lags, a screen quotes another. Each keeps what it said last;
`Ledger.verdict` weighs them (design section 5). Going busy or blocked is believed at once, from anyone. Leaving it
takes evidence of the turn's end, or agreement for a while.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sm.core.observation import Activity, Observation, Source


@dataclass(frozen=True, slots=True)
class Entry:
    """What a source says now: since when the same, and when that was seen last."""

    said: Observation
    since: float
    seen: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to believe, the observation that it rests on, and why others were not believed."""

    said: Observation
    overruled: Mapping[Source, str]


AGREEMENT_S = 1.5
"""How long weak evidence of being idle must last when nothing tells of the turn's end."""
TITLE_EVERY_S = 1.0
"""A title is looked at this often: one that stands may have turned since."""
PUBLISHED_S = 0.25
"""The same for what the agent itself publishes: it may flip between two turns."""
SETTLED_S = 1.0
"""An agent publishes a change within 0.5 s even on a busy machine: what it still says after this is how it is."""
LAG_S = 0.4
"""A title and a screen show the moment before: what they say counts when it is this much newer."""
STUCK_S = 5.0
"""A state file that is still busy this long after the end of a turn, while it looks idle, is not written any more."""
AHEAD_S = 1.0
"""What was said this far in the future was said before the clock went back."""
_TURNS_KEPT = 64
FRESH_S = 120.0
"""A session that nothing was seen of for so long is stale. A standing source is seen whenever it is read."""


class Ledger:
    """What all sources say of one session. `off`: sources that are not believed (for tests and measurements)."""

    def __init__(self, off: Collection[Source] = ()) -> None:
        self._off = frozenset(off)
        self._entries: dict[Source, Entry] = {}
        self._turn: str | None = None
        self._past: deque[str] = deque(maxlen=_TURNS_KEPT)
        self._asking: dict[tuple[str, str | None], Observation] = {}
        """What each sub-agent, and the agent itself, waits for, by the use of a tool that it is about."""
        self._worked_at = 0.0
        """When another source than hooks said last that it is not idle: then what was awaited has come."""

    @property
    def entries(self) -> Mapping[Source, Entry]:
        return self._entries

    def add(self, said: Observation, now: float | None = None) -> bool:
        """Take note at `now`; False for what comes too late to mean anything: older than what is known, or the end
        of a turn before. Not late is who asks about a known use of a tool: others of its message may overtake it.
        """
        if said.source in self._off:
            return False
        seen = said.at if now is None else now
        if self.is_late(said.source, said.at, seen) and not said.asks_about_use:
            return False
        known = self._entries.get(said.source)
        if said.source is not Source.HOOK and said.activity is not Activity.IDLE:
            self._worked_at = max(self._worked_at, said.at)
        if said.source is Source.HOOK:
            if not self._in_turn(said):
                return False
            said = self._asking_first(said)
        same = known is not None and known.said.activity is said.activity and not said.final
        since = known.since if same and known is not None else said.at
        self._entries[said.source] = Entry(said, since, max(said.at, seen))
        return True

    def is_late(self, source: Source, at: float, now: float) -> bool:
        """Whether the source has said something newer than `at`; not where that lies ahead of `now`."""
        known = self._entries.get(source)
        return known is not None and at < known.said.at <= now + AHEAD_S

    def _in_turn(self, said: Observation) -> bool:
        """False for the end of a turn that another has followed. A new turn is believed, whatever tells of it."""
        if said.who or said.turn is None or said.turn == self._turn:
            return True
        if said.turn in self._past:
            return said.activity is not Activity.IDLE
        if self._turn is not None:
            self._past.append(self._turn)
        self._turn = said.turn
        return True

    def _asking_first(self, said: Observation) -> Observation:
        """While a dialog is open, what others do does not hide it: until that use goes on, or the turn ends.

        Others are sub-agents, and the tools of one message that are used together.
        """
        match said.activity:
            case Activity.BLOCKED:
                self._asking[said.who, said.use] = said
            case Activity.BUSY if not said.opens:
                for who, use in list(self._asking):
                    if who == said.who and (said.use is None or use in (None, said.use)):
                        del self._asking[who, use]
            case _:
                self._asking.clear()
        asking = list(self._asking.values())
        return asking[-1] if asking else said

    def used(self, use: str) -> None:
        """This use of a tool is over, whoever tells of it: from the next hook on nothing is asked about it."""
        self._asking = {about: said for about, said in self._asking.items() if about[1] != use}

    def seen(self, source: Source, now: float) -> None:
        """A standing source was read, and says what it said before."""
        if (entry := self._entries.get(source)) is not None:
            self._entries[source] = replace(entry, seen=now)

    def forget(self, *sources: Source) -> None:
        """These sources say nothing any more: the file is gone, the conversation is another."""
        for source in sources or tuple(Source):
            self._entries.pop(source, None)
            if source is Source.HOOK:
                self._asking.clear()

    def verdict(self, now: float) -> Verdict | None:
        """What to believe at `now`; None when nobody has said anything.

        From the strongest source to the weakest, each may overrule what is believed so far.
        """
        believed: Entry | None = None
        overruled: dict[Source, str] = {}
        for source in Source:
            entry = self._entries.get(source)
            if entry is None:
                continue
            if believed is None:
                believed = entry
                continue
            if entry.said.activity is believed.said.activity:
                continue
            why = self._overrules(entry, believed, now)
            if why is None:
                overruled[source] = f"the {believed.said.source} is believed"
            else:
                overruled[believed.said.source] = why
                believed = entry
        return None if believed is None else Verdict(believed.said, overruled)

    def _overrules(self, entry: Entry, believed: Entry, now: float) -> str | None:
        """Why the weaker `entry`, which says something else, is believed nevertheless; None: it is not."""
        said, at = entry.said, believed.said.at
        awaited = now - at < believed.said.patience_s and self._worked_at <= at
        # On a busy machine the title shows the turn's begin before the hook and the state file tell of it.
        begun = now - at < believed.said.patience_s and said.at <= self._worked_at
        stale = begun and entry.seen - self._worked_at < AGREEMENT_S
        if (awaited or stale) and said.activity is Activity.IDLE and not said.final:
            return None
        match said.source:
            case Source.STATE_FILE:
                return self._published(entry, believed, now)
            case Source.SCREEN if (
                said.activity is Activity.BLOCKED and believed.said.activity is Activity.IDLE
            ):
                # The agent publishes idle below a dialog that a person has opened.
                return f"the {said.source} shows a dialog" if said.at > at + LAG_S else None
            case _ if Source.STATE_FILE in self._entries:
                return None  # what the agent publishes is worth more than how it looks
            case _ if said.activity is not Activity.IDLE:
                lag = 0.0 if said.source is Source.TRANSCRIPT else LAG_S
                return f"the {said.source} says {said.activity} since" if said.at > at + lag else None
            case _ if said.doubtful and believed.said.activity is Activity.BLOCKED:
                return None
            case _ if said.final:
                return f"the {said.source} tells of the turn's end" if said.at > at else None
            case _:
                # A title is told when it changes, a screen when it is looked at.
                until = now - TITLE_EVERY_S if said.source is Source.TITLE else entry.seen
                agreed_s = until - max(entry.since, at)
                return (
                    f"the {said.source} says idle for {agreed_s:.1f} s" if agreed_s >= AGREEMENT_S else None
                )

    def _published(self, entry: Entry, believed: Entry, now: float) -> str | None:
        """Why what the agent publishes is believed against an event."""
        source, activity, at = entry.said.source, entry.said.activity, believed.said.at
        if entry.since > at:
            settled = activity is not Activity.IDLE or now - entry.since >= PUBLISHED_S
            return f"the {source} says {activity} since" if settled else None
        match activity:
            case Activity.BUSY if believed.said.activity is Activity.IDLE:
                # A turn may go on after its end: a hook of the user's may have said so. It would publish the end.
                stuck = now - at >= STUCK_S and self._looks_idle(at)
                return None if stuck else f"the {source} still says {activity}"
            case Activity.IDLE:
                stands = entry.seen - at >= AGREEMENT_S
            case _:
                stands = entry.seen - at >= SETTLED_S
        return f"the {source} still says {activity}" if stands else None

    def _looks_idle(self, since: float) -> bool:
        looks = [self._entries[s] for s in (Source.TITLE, Source.SCREEN) if s in self._entries]
        return bool(looks) and all(e.said.activity is Activity.IDLE and e.seen > since for e in looks)

    def next_look(self, now: float) -> float | None:
        """Seconds until time alone, or reading a standing source again, may change the verdict; None: only news can."""
        believed = self.verdict(now)
        if believed is None:
            return None
        waits = (PUBLISHED_S, SETTLED_S, AGREEMENT_S, AGREEMENT_S + TITLE_EVERY_S, STUCK_S)
        dues = [
            max(entry.since, believed.said.at) + wait
            for entry in self._entries.values()
            if entry.said.activity is not believed.said.activity
            for wait in (*waits, believed.said.patience_s)
        ]
        if now - believed.said.at < believed.said.patience_s:
            dues.append(self._worked_at + AGREEMENT_S)
        return min((due - now for due in dues if due > now), default=None)

    def is_stale(self, now: float) -> bool:
        """Whether no source has given a sign of what it says for too long."""
        return all(now - entry.seen > FRESH_S for entry in self._entries.values())
