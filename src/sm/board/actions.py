"""The actions of live views: order, conditions and questions. Their keys are in declarations of operations. Pure."""

import shlex
from collections.abc import Callable, Mapping

from sm.board.board_action import ActionInput, ApiCall, BoardAction, FieldKind, InputField, Target
from sm.board.operation_actions import action_of, operation_actions, select_session, typed
from sm.board.spawn_action import NAME, SPAWN_ACTION
from sm.board.words import shown
from sm.core.programs import free_arguments
from sm.core.states import TextUse
from sm.operations import DoorNames
from sm.operations.agent_operations import ATTACH, READ_OUTPUT, WHY
from sm.operations.message_operations import CONFIRM_INBOX, SEND
from sm.operations.request_operations import ANSWER, ANSWER_ALWAYS, APPROVE, DENY
from sm.operations.session_operations import (
    ARCHIVE,
    FORK,
    INTERRUPT,
    KILL,
    MARK_SEEN,
    REMOVE,
    RENAME,
    REPARENT,
    RESTORE,
    SHOW_STATUS,
    UNARCHIVE,
)
from sm.operations.workspace_operations import CREATE_WORKSPACE

_KEPT = "refused if its worktree has work that exists nowhere else"


def _open_request(target: Target) -> str | None:
    if target.request is None:
        return "select an open request"
    is_at_terminal = target.request["kind"] == "dialog"
    return "only a person at its terminal can answer this dialog: attach" if is_at_terminal else None


def _question(target: Target) -> str | None:
    request = target.request
    if request is None or request["kind"] != "question":
        return "select an open question"
    return "the question is cut: attach to answer it" if request["cut"] else None


def _has_rule(target: Target) -> str | None:
    """Tell why no rule allows what the request asks for. The daemon decides, and its word is a line of rules.yaml."""
    if target.request is None:
        return "select an open request"
    return None if target.request.get("always") else "no rule can say exactly what this request asks for"


def _unread(target: Target) -> str | None:
    is_unread = target.need is not None and target.need.message_id is not None
    return None if is_unread else "select a message to you"


def _live(target: Target) -> str | None:
    if target.need is not None and target.row is None:
        return select_session(target)
    if target.row is None:
        return "select a session"
    return None if target.row.is_live else f"{target.row.label} has ended"


def _with_process(target: Target) -> str | None:
    """An ended session may still have a process: it can be attached to, takes messages, and can be killed."""
    row = target.row
    if row is None or row.has_process:
        return select_session(target)
    return f"the process of {row.label} has ended"


def _unseen(target: Target) -> str | None:
    if target.row is None:
        return "select a session"
    return (
        None if target.row.attention in ("failed", "done", "older") else f"{target.row.label} is seen already"
    )


def _ended(target: Target) -> str | None:
    if target.row is None:
        return "select a session"
    return f"{target.row.label} is live" if target.row.is_live else None


def _over(target: Target) -> str | None:
    if target.row is not None and not target.row.is_live and target.row.has_process:
        return f"the process of {target.row.label} still runs"
    return _ended(target)


def _can_archive(target: Target) -> str | None:
    archived = target.row is not None and target.row.data["archived"]
    return "it is archived already" if archived else _ended(target)


def _can_unarchive(target: Target) -> str | None:
    if target.row is None:
        return "select a session"
    return None if target.row.data["archived"] else "it is not archived"


def _can_fork(target: Target) -> str | None:
    if target.row is None:
        return "select a session"
    is_program = target.row.data["provider"] == "command"
    return f"{target.row.label} is a program without a conversation" if is_program else None


def _always(target: Target) -> str | None:
    return None


def _has_audience(target: Target) -> str | None:
    if target.audience:
        return None
    place = f" in workspace {target.workspace}" if target.workspace else ""
    return f"there is no live session{place}"


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
        return ApiCall(ANSWER.path_of(target.need.key), body)

    return call


def _always_allow(target: Target, words: ActionInput) -> ApiCall:
    """Write the rule for a request. `words.text`: the line that the person saw, or empty for that of the target."""
    assert target.need is not None
    assert target.request is not None
    return ApiCall(
        ANSWER_ALWAYS.path_of(target.need.key), {"line": words.text or str(target.request["always"])}
    )


def _always_command(target: Target, words: ActionInput) -> tuple[str, ...]:
    return ("sm", APPROVE.verb, "REQUEST" if target.need is None else target.need.key, "--always")


def rule_question(target: Target) -> str:
    """Ask whether to write the rule for a request, which the view shows below. Empty for one that gets no rule."""
    if _has_rule(target) is not None:
        return ""
    kind = "" if target.row is None else f" of type {shown(target.row.agent_type, 60)}"
    tool = "" if target.request is None else str(target.request["tool"])
    free = free_arguments(tool)
    use = shown(tool, 100) if tool.startswith("mcp__") else "this"
    return f"Always allow {use}{free and f', with {free},'} to every session{kind}? sm adds this line to rules.yaml:"


def _question_with_rule(target: Target) -> str:
    question = rule_question(target)
    return f"{question}\n{target.request['always']}\n" if question and target.request is not None else ""


def _deny(target: Target, words: ActionInput) -> ApiCall:
    """Deny a request; a completion together with draft comments, which become a round of its review."""
    assert target.need is not None
    if not words.drafts:
        return _answer(False)(target, words)
    body = {
        "request": target.need.key,
        "shown": target.need.digest,
        "ids": list(words.drafts),
        "text": words.text or None,
        **words.reviewed,
    }
    return ApiCall(f"/v1/sessions/{_id(target)}/review/deny", body)


def _deny_command(target: Target, words: ActionInput) -> tuple[str, ...]:
    assert target.need is not None
    if words.drafts:
        return ("sm", DENY.verb, target.need.key, "--review")
    return _on_request(DENY)(target, words)


def proposes_completion(target: Target) -> bool:
    """True for a request whose denial takes draft comments about the changes."""
    return target.request is not None and target.request["kind"] == "completion"


def _on_request(operation: DoorNames) -> Callable[[Target, ActionInput], tuple[str, ...]]:
    def command(target: Target, words: ActionInput) -> tuple[str, ...]:
        assert target.need is not None
        texts = words.answers or ((words.text,) if words.text else ())
        return ("sm", operation.verb, target.need.key, *texts)

    return command


def _send(target: Target, words: ActionInput) -> ApiCall:
    body = {"to": _id(target), "text": words.text, "mode": words.mode, "wait_s": 0}
    return ApiCall(SEND.path, body | ({"files": list(words.files)} if words.files else {}))


def _send_command(target: Target, words: ActionInput) -> tuple[str, ...]:
    mode = {"idle": ("--mode", "idle"), "urgent": ("--urgent",)}.get(words.mode, ())
    return ("sm", "send", *mode, _id(target), words.text or "TEXT")


def _mark_read(target: Target, words: ActionInput) -> ApiCall:
    assert target.need is not None
    return ApiCall(CONFIRM_INBOX.path, {"message_ids": [target.need.message_id]})


def _mark_read_command(target: Target, words: ActionInput) -> tuple[str, ...]:
    number = None if target.need is None else target.need.message_id
    return ("sm", "inbox", "--read", "MESSAGE" if number is None else str(number))


def _mark_seen(target: Target, words: ActionInput) -> ApiCall:
    return ApiCall(MARK_SEEN.path, {"sessions": [_id(target)]})


def _kill(target: Target, words: ActionInput) -> ApiCall:
    # The daemon kills one process tree after the other, by force only after a grace time.
    return ApiCall(KILL.path_of(_id(target)), {"tree": words.tree}, is_long=True)


def _kill_command(target: Target, words: ActionInput) -> tuple[str, ...]:
    return ("sm", "kill", _id(target), *(("--tree",) if words.tree else ()))


def _kill_question(target: Target) -> str:
    return f"Kill {target.row.label if target.row is not None else _id(target)}?"


def _kill_tree(target: Target) -> str:
    below = target.row.data["tree"]["live"] - int(target.row.is_live) if target.row is not None else 0
    return f"with its {below} live descendant{'' if below == 1 else 's'}" if below > 0 else ""


def _sessions(count: int) -> str:
    return f"{count} live session{'' if count == 1 else 's'}"


def _broadcast(target: Target, words: ActionInput) -> ApiCall:
    body = {
        "text": words.fields.get("text", ""),
        "mode": "auto",
        "wait_s": 0,
        "answer": TextUse.MESSAGE.value,
    }
    return ApiCall(SEND.path, body, recipients=target.audience)


def _broadcast_command(target: Target, words: ActionInput) -> tuple[str, ...]:
    place = ("--workspace", target.workspace) if target.workspace else ()
    return ("sm", "broadcast", *place, words.fields.get("text", "TEXT"))


def _broadcast_question(target: Target) -> str:
    place = f" of workspace {target.workspace}" if target.workspace else ""
    return f"Send to {_sessions(len(target.audience))}{place}?"


def _reparent(target: Target, words: ActionInput) -> ApiCall:
    return ApiCall(REPARENT.path_of(_id(target)), {"parent": words.fields.get("parent")})


def _reparent_command(target: Target, words: ActionInput) -> tuple[str, ...]:
    return ("sm", "reparent", _id(target), words.fields.get("parent", "--operator"))


def _short_name(target: Target) -> str:
    """The present name without the agent type."""
    if target.row is None:
        return ""
    return str(target.row.data["friendly_name"] or "").removeprefix(f"{target.row.agent_type.lower()}-")


def _rm_question(target: Target) -> str:
    label = target.row.label if target.row is not None else _id(target)
    tree = target.row is not None and target.row.data["worktree"] is not None
    return f"Delete {label} with its messages and files{f' ({_KEPT})' if tree else ''}?"


ACTIONS: Mapping[str, BoardAction] = {
    action.name: action
    for action in (
        BoardAction(
            "approve", APPROVE.key, APPROVE.title, _open_request, _on_request(APPROVE), _answer(True)
        ),
        BoardAction(
            "always",
            ANSWER_ALWAYS.key,
            ANSWER_ALWAYS.title,
            _has_rule,
            _always_command,
            _always_allow,
            question=_question_with_rule,
        ),
        BoardAction("deny", DENY.key, DENY.title, _open_request, _deny_command, _deny),
        BoardAction("answer", ANSWER.key, ANSWER.title, _question, _on_request(ANSWER), _answer(True)),
        BoardAction("send", SEND.key, SEND.title, _with_process, _send_command, _send),
        BoardAction("read", CONFIRM_INBOX.key, CONFIRM_INBOX.title, _unread, _mark_read_command, _mark_read),
        action_of(INTERRUPT, _live),
        action_of(
            KILL,
            _with_process,
            command=_kill_command,
            call=_kill,
            question=_kill_question,
            wider=_kill_tree,
        ),
        action_of(RESTORE, _over, is_long=True),
        action_of(ARCHIVE, _can_archive, undo="unarchive"),
        action_of(UNARCHIVE, _can_unarchive),
        BoardAction("attach", ATTACH.key, ATTACH.title, _with_process, typed(ATTACH), None),
        BoardAction("output", READ_OUTPUT.key, READ_OUTPUT.title, select_session, typed(READ_OUTPUT), None),
        BoardAction("why", WHY.key, WHY.title, select_session, typed(WHY), None),
        BoardAction("copy-id", "y", "Copy the ID", select_session, typed(SHOW_STATUS), None),
        SPAWN_ACTION,
        BoardAction(
            "broadcast",
            "b",
            "Send a message to all",
            _has_audience,
            _broadcast_command,
            _broadcast,
            needs_session=False,
            question=_broadcast_question,
            fields=(InputField("text", "Message to all live sessions", required=True),),
        ),
        BoardAction("seen", MARK_SEEN.key, MARK_SEEN.title, _unseen, typed(MARK_SEEN), _mark_seen),
        action_of(FORK, _can_fork, NAME, is_long=True),
        action_of(
            REPARENT,
            select_session,
            InputField("parent", "New parent", FieldKind.SESSION, hint="default: the operator"),
            command=_reparent_command,
            call=_reparent,
        ),
        action_of(
            RENAME,
            select_session,
            InputField("name", "New name", required=True, default=_short_name),
        ),
        action_of(REMOVE, _over, name="rm", question=_rm_question),
        action_of(
            CREATE_WORKSPACE,
            _always,
            InputField("slug", "Name of the workspace", required=True, hint="a-z, 0-9 and dashes"),
            InputField(
                "working_dir",
                "Directory of the workspace",
                FieldKind.DIRECTORY,
                required=True,
                default=lambda target: target.cwd,
            ),
            name="workspace",
        ),
        *operation_actions(),
    )
}
"""By name, in the order of the help."""


def command_to_copy(target: Target) -> str:
    """The command that shows or answers the target, for a shell."""
    request = target.request
    if request is not None and request["kind"] == "dialog":
        return shlex.join(("sm", "attach", request["session_id"]))
    if request is not None and target.need is not None:
        verb = "answer" if request["kind"] == "question" else "approve"
        texts = ("TEXT",) * len(request["questions"]) if verb == "answer" else ()
        return shlex.join(("sm", verb, target.need.key, *texts))
    return "sm ls" if target.session_id is None else shlex.join(("sm", "status", target.session_id))
