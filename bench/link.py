"""`python -m bench link --dir DIR [--json]`: scores what a link says about recorded conversations.

DIR has a file NAME.jsonl for each recording, with lines `{"t": seconds, "dir": "in" | "out" | "truth", "msg": ...}`: a
frame of codex's app-server, a frame of sm, or the truth as the script of the recording did or saw it. The members of a
truth are `status`, `delivered` (ids of messages) and `answered_by` (`sm` or `terminal`).

The status is sampled at 10 Hz from the first truth to the last. A truth says what the script saw at that time, which is
later than the change: so until the next truth a sample may show the earlier status, those between, and the next one, in
this order and not back. The frames bound the change: an agent is not idle before the last frame of its turn, does not
wait before a request, and waits until an answer. The text output also says how many samples fit each truth from its
line on, without this allowance.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sm.core.observation import Activity
from sm.providers.codex.frames import RpcNotification, decoded, read_frame
from sm.providers.codex.protocol import ProtocolReader
from sm.providers.links import (
    Answerer,
    ConversationEnded,
    LinkEvent,
    MessageUpdate,
    Receipt,
    RequestResolved,
    StateUnknown,
    StateUpdate,
)

EVERY_S = 0.1
GRACE_S = 0.2
"""After a truth, the earlier status is still right: the program has not said yet what the script did."""
_RUNNING, _WAITING, _IDLE, _UNKNOWN = "running", "waiting_input", "idle", "unknown"
_STATUSES: Mapping[Activity, str] = {
    Activity.BUSY: _RUNNING,
    Activity.BLOCKED: _WAITING,
    Activity.IDLE: _IDLE,
}
_ANSWERERS: Mapping[Answerer | None, str] = {
    Answerer.LINK: "sm",
    Answerer.TERMINAL: "terminal",
    None: "nobody",
}
_BEGINS_A_TURN = frozenset({"turn/start", "turn/steer", "thread/queue/add"})
_T_MAX = 100_000.0
_ERRORS_MAX = 200


@dataclass(frozen=True, slots=True)
class RecordedLine:
    t: float
    dir: str
    msg: Mapping[str, Any]


@dataclass(slots=True)
class LinkScore:
    """The score of one recording, or of all."""

    samples: int = 0
    right: int = 0
    right_at_once: int = 0
    """Samples that fit the last truth before them."""
    delivered: list[bool] = field(default_factory=list)
    answered_by: list[bool] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: "LinkScore") -> None:
        self.samples += other.samples
        self.right += other.right
        self.right_at_once += other.right_at_once
        self.delivered += other.delivered
        self.answered_by += other.answered_by
        self.errors += other.errors


def main(arguments: Sequence[str]) -> int:
    """Return 0 if the link is right about everything, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m bench link", description="Score what a link says about recorded conversations."
    )
    parser.add_argument("--dir", type=Path, required=True, help="directory of the recordings, NAME.jsonl")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    paths = sorted(options.dir.glob("*.jsonl"))
    if not paths:
        parser.error(f"{options.dir} holds no recording")
    total, n = LinkScore(), 0
    for path in paths:
        lines, problem = read(path)
        n += bool(lines)
        if problem:
            total.errors.append({"recording": path.stem, "what": "file", "got": problem})
        total.add(score(path.stem, lines))
    result = summary(n, total)
    print(
        json.dumps(result, indent=2, ensure_ascii=False) if options.json else "\n".join(table(result, total))
    )
    return int(bool(total.errors))


def read(path: Path) -> tuple[list[RecordedLine], str]:
    """The lines of a recording that can be read, and the problem with the others, or empty for none."""
    try:
        texts = path.read_bytes().split(b"\n")
    except OSError as error:
        return [], error.strerror or "cannot be read"
    lines = [line for text in texts if text.strip() and (line := _line(text)) is not None]
    lines.sort(key=lambda line: line.t)  # stable: lines of one time stay in order
    broken = sum(bool(text.strip()) for text in texts) - len(lines)
    return lines, "is empty" if not lines and not broken else f"broken lines: {broken}" if broken else ""


def _line(text: bytes) -> RecordedLine | None:
    value = decoded(text)
    if not isinstance(value, dict):
        return None
    t, dir, msg = (value.get(name) for name in ("t", "dir", "msg"))
    if not isinstance(t, int | float) or isinstance(t, bool) or not isinstance(msg, dict):
        return None
    if not 0 <= t <= _T_MAX:
        return None
    return RecordedLine(float(t), dir, msg) if dir in ("in", "out", "truth") else None


def score(name: str, lines: Sequence[RecordedLine]) -> LinkScore:
    """Compare what the link says with the truth."""
    said = list(_said(lines))
    found = LinkScore()
    _score_status(name, lines, _statuses(said), found)
    truths = [line for line in lines if line.dir == "truth"]
    lists = [truth.msg["delivered"] for truth in truths if isinstance(truth.msg.get("delivered"), list)]
    if lists:
        expected = {id for ids in lists for id in ids if isinstance(id, str)}
        got = {e.id for _, e in said if isinstance(e, MessageUpdate) and e.receipt is Receipt.SUBMITTED}
        _judge(found.delivered, found, name, "delivered", sorted(expected), sorted(got))
    for truth in truths:
        if isinstance(by := truth.msg.get("answered_by"), str):
            answers = [_ANSWERERS[e.by] for t, e in said if t <= truth.t and isinstance(e, RequestResolved)]
            _judge(found.answered_by, found, name, "answered_by", by, answers[-1] if answers else "nobody")
    return found


def _judge(judged: list[bool], found: LinkScore, name: str, what: str, expected: object, got: object) -> None:
    judged.append(expected == got)
    if expected != got:
        found.errors.append({"recording": name, "what": what, "truth": expected, "got": got})


def _said(lines: Sequence[RecordedLine]) -> Iterator[tuple[float, LinkEvent]]:
    reader = ProtocolReader()
    frames = ((read_frame(line.msg), line.t) for line in lines if line.dir == "in")
    emitted = ((frame.emitted_at, t) for frame, t in frames if isinstance(frame, RpcNotification))
    began = next((at - t for at, t in emitted if at is not None), 0.0)
    for line in lines:
        tell = {"in": reader.received, "out": reader.sent}.get(line.dir)
        if tell is not None:
            yield from ((line.t, event) for event in tell(line.msg, began + line.t))


def _statuses(said: Sequence[tuple[float, LinkEvent]]) -> list[tuple[float, str]]:
    """The statuses that the link says, each with the time from which it counts."""
    statuses = [(0.0, _UNKNOWN)]
    for t, event in said:
        match event:
            case StateUpdate(observation=observation):
                statuses.append((t, _STATUSES[observation.activity]))
            case StateUnknown():
                statuses.append((t, _UNKNOWN))
            case ConversationEnded():
                statuses.append((t, "ended"))
            case _:
                pass
    return statuses


@dataclass(slots=True)
class Stretch:
    """The time between two truths, and the statuses that may follow each other in it."""

    begin: float
    stages: list[str]
    idle_from: float
    """The last frame of a turn in this stretch."""
    waits_from: float
    """The first request in this stretch."""
    waits_until: float
    """The first answer in this stretch."""
    stage: int = 0

    def fits(self, status: str, t: float) -> bool:
        """Take a sample. The stages that are passed do not come back."""
        for stage in range(self.stage, len(self.stages)):
            if self.stages[stage] == status and self._is_possible(stage, t):
                self.stage = stage
                return True
        return False

    def _is_possible(self, stage: int, t: float) -> bool:
        if stage == 0:
            return True
        if self.stages[0] == _WAITING and t < self.waits_until:
            return False
        bounds = {_IDLE: self.idle_from, _WAITING: self.waits_from}
        return t >= bounds.get(self.stages[stage], 0.0)


def _stretch(lines: Sequence[RecordedLine], begin: float, end: float, before: str, after: str) -> Stretch:
    """The stretch from the truth `before` to the next one, `after`."""
    inside = [line for line in lines if begin <= line.t <= end]
    sent = {line.msg.get("method") for line in inside if line.dir == "out"}
    stages = [before]
    passes = (before, after) in ((_WAITING, _IDLE), (_IDLE, _WAITING))
    if passes or (before == after == _IDLE and sent & _BEGINS_A_TURN):
        stages.append(_RUNNING)
    if after != stages[-1]:
        stages.append(after)
    requests = [line.t for line in inside if line.dir == "in" and {"id", "method"} <= line.msg.keys()]
    answers = [line.t for line in inside if _is_answer(line)]
    in_turn = [line.t for line in inside if _is_of_a_turn(line)]
    return Stretch(
        begin,
        stages,
        max(in_turn, default=begin),
        min(requests, default=begin),
        min(answers, default=begin),
    )


def _is_answer(line: RecordedLine) -> bool:
    is_own = line.dir == "out" and "method" not in line.msg
    return is_own or (line.dir == "in" and line.msg.get("method") == "serverRequest/resolved")


def _is_of_a_turn(line: RecordedLine) -> bool:
    """A frame that only a turn under way sends. Others, such as a token count, may come behind its end."""
    method = line.msg.get("method")
    return line.dir == "in" and isinstance(method, str) and method.startswith("item/")


def _score_status(
    name: str, lines: Sequence[RecordedLine], said: Sequence[tuple[float, str]], found: LinkScore
) -> None:
    truths = [
        (line.t, s) for line in lines if line.dir == "truth" and isinstance(s := line.msg.get("status"), str)
    ]
    if not truths:
        return
    last = truths[-1][0]
    nexts = [*truths[1:], (max(last, lines[-1].t), truths[-1][1])]
    stretches = [
        _stretch(lines, t, end, status, after)
        for (t, status), (end, after) in zip(truths, nexts, strict=True)
    ]
    wrong: dict[str, Any] | None = None
    ticks = [n * EVERY_S for n in range(int(truths[0][0] / EVERY_S) + 1, int(last / EVERY_S) + 1)]
    for t in [*ticks, last]:
        at = max(n for n, (begin, _) in enumerate(truths) if begin <= t)
        status = [status for when, status in said if when <= t][-1]
        before = truths[at - 1][1] if at else None
        fits = stretches[at].fits(status, t)
        is_end = t == lines[-1].t  # nothing more can come that the truth awaits
        graced = t < truths[at][0] + GRACE_S and not is_end and (before is None or status == before)
        found.samples += 1
        found.right += fits or graced
        found.right_at_once += status == truths[at][1]
        if fits or graced:
            wrong = None
        elif wrong is not None and wrong["got"] == status:
            wrong["until"] = round(t, 3)
        else:
            wrong = {"recording": name, "what": "status", "truth": stretches[at].stages, "got": status}
            wrong |= {"from": round(t, 3), "until": round(t, 3)}
            found.errors.append(wrong)


def summary(n: int, total: LinkScore) -> dict[str, Any]:
    """`{n, status_accuracy, delivered, answered_by, errors}`. A share is None if no truth names its subject."""
    return {
        "n": n,
        "status_accuracy": round(total.right / total.samples, 4) if total.samples else None,
        "delivered": _share(total.delivered),
        "answered_by": _share(total.answered_by),
        "errors": total.errors[:_ERRORS_MAX],
    }


def _share(judged: Sequence[bool]) -> float | None:
    return round(sum(judged) / len(judged), 4) if judged else None


def table(result: Mapping[str, Any], total: LinkScore) -> Iterator[str]:
    yield f"recordings          {result['n']}"
    yield f"status              {total.right} of {total.samples} samples ({result['status_accuracy']})"
    yield f"  from the truth on {total.right_at_once} of {total.samples} samples"
    yield f"delivered           {sum(total.delivered)} of {len(total.delivered)} recordings"
    yield f"answered by         {sum(total.answered_by)} of {len(total.answered_by)} requests"
    for error in result["errors"]:
        yield json.dumps(error, ensure_ascii=False)
