"""One session in a live view. Pure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sm.board.words import shown, status_word
from sm.core.dataclass import dataclass
from sm.core.figures import dollars, model_name, token_count
from sm.core.lines import plural
from sm.core.pause_states import PauseState, held_words
from sm.core.session_lines import (
    capability_marks,
    ended_children,
    failure_words,
    fallback_mark,
    has_process,
    pause_state,
)
from sm.core.statuses import ENDED, Status
from sm.core.timestamps import epoch_s, span

if TYPE_CHECKING:
    from sm.client.live_stream import Json

WAITING, FAILED, STALE, DONE, WORKING, IDLE, OVER = range(7)
"""How much a session needs a person, the most urgent first."""
_LABEL_MAX = 150
_OF_OLDER_DAEMON: Mapping[str, object] = {
    "attention": "", "children_failed": 0, "children_done": 0, "last_words": None, "lost": False, "paused": None,
    "takes_files": False, "warnings": (),
}  # fmt: skip
"""The fields that an older daemon does not send."""


@dataclass(frozen=True, slots=True)
class BoardRow:
    id: str
    parent_id: str | None
    label: str
    """Safe to show."""
    status: str
    stale: bool
    status_at_s: float
    """Seconds since the epoch, of the daemon's clock."""
    workspace: str | None
    agent_type: str
    cost: float
    """0 as long as nothing is counted."""
    requests: Sequence[str]
    urgency: int
    words: str
    """All that a plain word of a filter looks at, casefolded."""
    data: "Json"

    @property
    def is_live(self) -> bool:
        return self.status not in ENDED

    @property
    def is_over(self) -> bool:
        """True if the session has ended and needs no look of the operator."""
        return self.urgency == OVER

    @property
    def has_process(self) -> bool:
        """True if the process of the session may run, also after its end."""
        return has_process(self.data)

    @property
    def attention(self) -> str:
        """The group of the session, as the daemon decided it, or empty if unknown."""
        return str(self.data["attention"])

    def status_text(self, now_s: float) -> str:
        """`waiting 4min`. `now_s`: the daemon's time."""
        return f"{status_word(self.status, stale=self.stale)} {span(max(0.0, now_s - self.status_at_s))}"

    def task(self) -> str:
        """The current work or wait of the session in one line. Safe to show."""
        data = self.data
        reason = data["status_reason"]
        if self.requests and self.status != Status.WAITING_INPUT:
            return f"waits for an answer: {', '.join(self.requests[:3])}"
        if self.status == Status.WAITING_INPUT:
            texts: tuple[str | None, ...] = (reason, data["note"])
        elif self.status in ENDED:
            failure = self.attention == "failed" and data["completion_message"] in (None, reason)
            words = failure_words(reason, data["last_words"]) if failure else None
            texts = (words, data["completion_message"], reason)
        else:
            texts = (self._stopped(), data["note"], data["activity"], data["title"], reason)
        task = shown(next((text for text in texts if text and text.strip()), ""), 300)
        return "; ".join(filter(None, (ended_children(self.data), task)))

    def _stopped(self) -> str:
        """`paused: its processes are frozen until sm resume`; empty unless sm has seen that the session is still."""
        pause = self.data["paused"]
        if not pause or pause_state(pause) != PauseState.PAUSED:
            return ""
        return f"paused: {held_words(str(pause.get('held'))) or pause['reason']}"

    def tree_cost(self) -> str:
        """The cost of the session with its descendants; empty without descendants, or if it is not known."""
        tree = self.data["tree"]
        known = tree["cost_usd"] is not None
        return dollars(tree["cost_usd"]) if known and tree["sessions"] > 1 else ""

    def badges(self) -> list[str]:
        """Marks of a session that is not as others."""
        pause, warnings = self.data["paused"], self.data["warnings"]
        marks = [
            pause_state(pause) if pause else "",
            plural(len(warnings), "warning") if warnings else "",
            fallback_mark(self.data).strip(),
            "worktree" if self.data["worktree"] else "",
            *capability_marks(self.data).values(),
        ]
        return [mark for mark in marks if mark]

    def tokens(self) -> str:
        """The input and output together; the cache is in the cost only."""
        return token_count(self.data["tokens"], narrow=True)

    def model(self) -> str:
        return model_name(shown(self.data["model"] or "-", 60), self.data["provider"])

    def progress(self) -> str:
        done, total = self.data["todo_done"], self.data["todo_total"]
        return f"{done or 0}/{total}" if total else ""


def board_row(data: "Json") -> BoardRow:
    data = {**_OF_OLDER_DAEMON, **data}
    status, stale = data["status"], data["status_stale"]
    texts = (
        *(data["label"], data["session_id"], data["name"], data["title"], data["note"], data["activity"]),
        *(data["completion_message"], data["status_reason"]),
    )
    return BoardRow(
        id=data["session_id"],
        parent_id=data["parent_session_id"],
        label=shown(data["label"], _LABEL_MAX),
        status=status,
        stale=stale and status not in ENDED,
        status_at_s=epoch_s(data["status_at"]),
        workspace=data["workspace"],
        agent_type=data["agent_type"],
        cost=data["cost_usd"] or 0.0,
        requests=tuple(data["open_requests"]),
        urgency=_urgency(data, waits=bool(data["open_requests"])),
        words="\n".join(filter(None, texts)).casefold(),
        data=data,
    )


def _urgency(data: "Json", *, waits: bool) -> int:
    status = data["status"]
    if status in ENDED:
        return {"failed": FAILED, "done": DONE}.get(data["attention"], OVER)
    if waits or status == Status.WAITING_INPUT:
        return WAITING
    if data["status_stale"]:
        return STALE
    return IDLE if status == Status.IDLE else WORKING
