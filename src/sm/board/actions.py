"""The actions of live views: one table with the key, the command, the request and the permission of each one. Pure."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sm.board.needs import BoardNeed
from sm.board.row import BoardRow

Body = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Target:
    """The selection: a session, or an open request (of a session that may be hidden)."""

    row: BoardRow | None = None
    need: BoardNeed | None = None

    @property
    def session_id(self) -> str | None:
        if self.need is not None:
            return self.need.session_id
        return None if self.row is None else self.row.id

    @property
    def request(self) -> Mapping[str, Any] | None:
        return None if self.need is None else self.need.request


@dataclass(frozen=True, slots=True)
class ActionInput:
    """A person's input for an action."""

    text: str = ""
    answers: tuple[str, ...] = ()
    mode: str = "auto"
    """Of a message: `auto`, `idle` or `urgent`."""
    tree: bool = False


NO_WORDS = ActionInput()


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request to the daemon."""

    path: str
    body: Body
    is_long: bool = False
    """True if agents start or end by it."""


@dataclass(frozen=True, slots=True)
class BoardAction:
    """An action on a target. `refusal` decides about the others: they need a target that it accepts."""

    name: str
    key: str
    title: str
    refusal: Callable[[Target], str | None]
    """The reason why the action is not possible; None: it is."""
    command: Callable[[Target, ActionInput], tuple[str, ...]]
    """The equivalent `sm` command."""
    call: Callable[[Target, ActionInput], ApiCall] | None
    """None: the view does it itself, such as attach."""
    undo: str | None = None
    """The action that takes this one back, on the same target."""
    question: Callable[[Target], str] | None = None
    """Asked before the action."""

    def command_line(self, target: Target, words: ActionInput = NO_WORDS) -> str:
        return shlex.join(self.command(target, words))


def _open_request(target: Target) -> str | None:
    return None if target.request is not None else "select an open request"


def _question(target: Target) -> str | None:
    request = target.request
    if request is None or request["kind"] != "question":
        return "select an open question"
    return "the question is cut: attach to answer it" if request["cut"] else None


def _session(target: Target) -> str | None:
    return None if target.session_id is not None else "select a session"


def _live(target: Target) -> str | None:
    if target.need is not None and target.row is None:
        return _session(target)
    if target.row is None:
        return "select a session"
    return None if target.row.is_live else f"{target.row.label} has ended"


def _with_process(target: Target) -> str | None:
    """An ended session may still have a process: kill ends it."""
    row = target.row
    if row is None or row.data["pid"] is not None or row.is_live:
        return _session(target)
    return f"the process of {row.label} has ended"


def _ended(target: Target) -> str | None:
    if target.row is None:
        return "select a session"
    return f"{target.row.label} is live" if target.row.is_live else None


def _can_archive(target: Target) -> str | None:
    archived = target.row is not None and target.row.data["archived"]
    return "it is archived already" if archived else _ended(target)


def _can_unarchive(target: Target) -> str | None:
    if target.row is None:
        return "select a session"
    return None if target.row.data["archived"] else "it is not archived"


def _id(target: Target) -> str:
    assert target.session_id is not None
    return target.session_id


def _answer(approved: bool) -> Callable[[Target, ActionInput], ApiCall]:
    def call(target: Target, words: ActionInput) -> ApiCall:
        assert target.need is not None
        body: dict[str, object] = {"approved": approved, "shown": target.need.digest}
        if words.answers:
            body["answers"] = list(words.answers)
        if words.text:
            body["message"] = words.text
        return ApiCall(f"/v1/requests/{target.need.key}/answer", body)

    return call


def _on_request(verb: str) -> Callable[[Target, ActionInput], tuple[str, ...]]:
    def command(target: Target, words: ActionInput) -> tuple[str, ...]:
        assert target.need is not None
        texts = words.answers or ((words.text,) if words.text else ())
        return ("sm", verb, target.need.key, *texts)

    return command


def _on_session(verb: str, *, is_long: bool = False) -> Callable[[Target, ActionInput], ApiCall]:
    return lambda target, words: ApiCall(f"/v1/sessions/{_id(target)}/{verb}", {}, is_long)


def _typed(verb: str) -> Callable[[Target, ActionInput], tuple[str, ...]]:
    return lambda target, words: ("sm", verb, _id(target))


def _send(target: Target, words: ActionInput) -> ApiCall:
    return ApiCall("/v1/messages", {"to": _id(target), "text": words.text, "mode": words.mode, "wait_s": 0})


def _send_command(target: Target, words: ActionInput) -> tuple[str, ...]:
    mode = {"idle": ("--mode", "idle"), "urgent": ("--urgent",)}.get(words.mode, ())
    return ("sm", "send", *mode, _id(target), words.text or "TEXT")


def _kill(target: Target, words: ActionInput) -> ApiCall:
    # The daemon kills one process tree after the other, by force only after a grace time.
    return ApiCall(f"/v1/sessions/{_id(target)}/kill", {"tree": words.tree}, is_long=True)


def _kill_command(target: Target, words: ActionInput) -> tuple[str, ...]:
    return ("sm", "kill", _id(target), *(("--tree",) if words.tree else ()))


def _kill_question(target: Target) -> str:
    label = target.row.label if target.row is not None else _id(target)
    below = target.row.data["tree"]["live"] - int(target.row.is_live) if target.row is not None else 0
    more = f", t: with its {below} live descendant{'' if below == 1 else 's'}" if below > 0 else ""
    return f"Kill {label}? y: yes{more}, Esc: no"


ACTIONS: Mapping[str, BoardAction] = {
    action.name: action
    for action in (
        BoardAction("approve", "a", "Approve", _open_request, _on_request("approve"), _answer(True)),
        BoardAction("deny", "d", "Deny, with words", _open_request, _on_request("deny"), _answer(False)),
        BoardAction("answer", "t", "Answer with a text", _question, _on_request("answer"), _answer(True)),
        BoardAction("send", "s", "Send a message", _live, _send_command, _send),
        BoardAction(
            "interrupt", "i", "Interrupt (Escape)", _live, _typed("interrupt"), _on_session("interrupt")
        ),
        BoardAction("kill", "K", "Kill", _with_process, _kill_command, _kill, question=_kill_question),
        BoardAction(
            "restore", "r", "Restore", _ended, _typed("restore"), _on_session("restore", is_long=True)
        ),
        BoardAction(
            "archive",
            "x",
            "Archive",
            _can_archive,
            _typed("archive"),
            _on_session("archive"),
            undo="unarchive",
        ),
        BoardAction(
            "unarchive", "X", "Unarchive", _can_unarchive, _typed("unarchive"), _on_session("unarchive")
        ),
        BoardAction("attach", "o", "Attach to the terminal", _live, _typed("attach"), None),
        BoardAction("output", "v", "View the terminal", _session, _typed("output"), None),
        BoardAction("why", "w", "Explain the status", _session, _typed("why"), None),
        BoardAction("copy-id", "y", "Copy the ID", _session, _typed("status"), None),
    )
}
"""By name, in the order of the help."""


def command_to_copy(target: Target) -> str:
    """The command that shows or answers the target, for a shell."""
    request = target.request
    if request is not None and target.need is not None:
        verb = "answer" if request["kind"] == "question" else "approve"
        texts = ("TEXT",) * len(request["questions"]) if verb == "answer" else ()
        return shlex.join(("sm", verb, target.need.key, *texts))
    return "sm ls" if target.session_id is None else shlex.join(("sm", "status", target.session_id))
