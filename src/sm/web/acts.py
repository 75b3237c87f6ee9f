"""Carries out what a person does in a browser, if the login and the shown words allow it."""

import os
import secrets
import time
from dataclasses import replace
from typing import Any

from sm.board import ACTIONS, ActionInput, ApiCall, BoardAction, BoardNeed, FieldKind, Target
from sm.board.board_action import Body
from sm.client.environment import environment
from sm.client.http import START_TIMEOUT_S, TIMEOUT_S, percent_encode
from sm.core.dataclass import dataclass
from sm.core.request_lines import verdict
from sm.errors import IllegalState, NotFound, NotPermitted, ShownChanged, SmError, UsageError
from sm.web.changes import KeepReviewed
from sm.web.client_frames import ActFrame, InvalidFrame, action_input
from sm.web.daemon_link import DaemonLink
from sm.web.hub import Hub
from sm.web.logins import scope_of
from sm.web.message_words import message_words
from sm.web.offers import DECISIONS, board_target, refusal
from sm.web.tab import Tab

_UNDO_MAX = 20


@dataclass(frozen=True, slots=True)
class ActResult:
    words: str
    undo: str | None
    session: str | None = None
    """The id of the session that was started."""


class Acts:
    """The actions of one tab."""

    def __init__(self, hub: Hub, link: DaemonLink, keep: KeepReviewed, tab: Tab) -> None:
        self._hub = hub
        self._link = link
        self._keep = keep
        self._tab = tab
        self._undone: dict[tuple[str, str], Target] = {}
        """The targets of actions that can be taken back: the session may be hidden by then."""

    async def carry_out(self, frame: ActFrame) -> ActResult:
        """Raises SmError."""
        action = ACTIONS.get(frame.action)
        if action is None or action.call is None:
            raise UsageError(f"there is no action {frame.action!r} for a browser")
        needed = scope_of(action.name)
        if not self._tab.login.scope.includes(needed):
            raise NotPermitted(f"this login may not {action.name}: it needs the scope {needed}", _LINK_HINT)
        words = _words(frame, action)
        target = await self._target(frame, action)
        if action.name == "deny" and words.drafts and frame.changes and target.session_id is not None:
            words = replace(words, reviewed=await self._keep(target.session_id, frame.changes))
        call = action.call(target, words)
        if action.name == "spawn":
            call = replace(call, body={**call.body, "environment": environment()})
        try:
            if call.recipients:
                return ActResult(await self._broadcast(call), None)
            answer = await self._post(call, call.body)
        finally:
            self._hub.reload()
            self._tab.read_again()
        if action.undo is not None and target.session_id is not None:
            self._undone[action.undo, target.session_id] = target
            while len(self._undone) > _UNDO_MAX:
                del self._undone[next(iter(self._undone))]
        if action.name == "send":
            return ActResult(await message_words(self._link, self._tab.login, answer), None)
        started = answer["session_id"] if action.name == "spawn" else None
        return ActResult(f"done: {action.command_line(target, words)}", action.undo, started)

    async def _post(self, call: ApiCall, body: Body) -> Any:
        timeout_s = START_TIMEOUT_S if call.is_long else TIMEOUT_S
        key = secrets.token_hex(16)
        return await self._link.post(call.path, body, login=self._tab.login, key=key, timeout_s=timeout_s)

    async def _broadcast(self, call: ApiCall) -> str:
        """Send to each recipient. Raises SmError if the daemon takes no message."""
        failures = list[SmError]()
        for body in call.bodies:
            try:
                await self._post(call, body)
            except SmError as error:
                failures.append(error)
                if len(failures) == len(call.recipients):
                    raise
        return call.sent_words([error.message for error in failures])

    async def settled_words(self, key: str) -> str | None:
        """Say who answered a request. Returns None while it is open."""
        path = f"/v1/requests/{percent_encode(key)}"
        request = await self._link.get(path, login=self._tab.login, timeout_s=TIMEOUT_S)
        is_open = request["state"] == "open" and request["answer"] is None
        return None if is_open else f"{key}: {verdict(request)}"

    async def _target(self, frame: ActFrame, action: BoardAction) -> Target:
        """The present target. Raises SmError if it is not the one that the person saw."""
        situation, clock_s = self._hub.situation, time.monotonic()
        if situation.table.lost_for_s(clock_s) is not None:
            raise IllegalState("there is no daemon: what is shown is not up to date", "sm daemon start")
        if not action.needs_session:
            return self._board_target(frame, action)
        need = None
        if frame.need is not None:
            need = next((need for need in situation.found if need.key == frame.need), None)
            if need is None:
                raise IllegalState(f"{frame.need} is no longer open")
        if action.name in DECISIONS:
            self._check_shown(frame, need, clock_s)
        row = self._tab.rows.get((need.session_id if need is not None else frame.session) or "")
        undone = self._undone.pop((action.name, frame.session or ""), None) if need is None else None
        if undone is not None:  # the row may be hidden, or not up to date yet: the daemon decides
            return undone
        if row is None and need is None and frame.session is not None:
            row = await self._hub.read_row(frame.session)
        target = Target(row, need)
        _check(action, target)
        return target

    def _board_target(self, frame: ActFrame, action: BoardAction) -> Target:
        if frame.workspace is not None and frame.workspace not in self._hub.workspaces:
            raise NotFound(f"no such workspace: {frame.workspace}")
        target = board_target(self._hub.situation.table.unarchived, frame.workspace)
        _check(action, target)
        return target

    def _check_shown(self, frame: ActFrame, need: BoardNeed | None, clock_s: float) -> None:
        if need is None:
            raise UsageError("a decision needs the request that was shown")
        if frame.shown is None or frame.shown != need.digest or not self._tab.guard.has_shown(need):
            raise ShownChanged(f"{need.key} has changed since it was shown", "read it again, then decide")
        if self._tab.guard.is_dead(need.key, clock_s):
            raise ShownChanged(f"too early: {need.key} has just appeared or changed", "read it, then decide")


def _check(action: BoardAction, target: Target) -> None:
    if reason := refusal(action, target):
        raise IllegalState(f"not possible: {reason}")


def _words(frame: ActFrame, action: BoardAction) -> ActionInput:
    """The person's input, with the directories of its fields in full. Raises UsageError."""
    try:
        words = action_input(frame)
    except InvalidFrame as error:
        raise UsageError(str(error)) from None
    given = {name: text.strip() for name, text in words.fields.items() if text.strip()}
    if problem := action.input_problem(given):
        raise UsageError(problem)
    for field in action.fields:
        if field.kind is FieldKind.DIRECTORY and field.name in given:
            given[field.name] = os.path.expanduser(given[field.name])
            if not os.path.isabs(given[field.name]):
                raise UsageError(f"{field.title}: an absolute path is needed, such as /home/me/project")
    return replace(words, fields=given)


_LINK_HINT = "to allow more: sm web link --scope all"


def error_fields(error: SmError, action: str = "") -> dict[str, Any]:
    """The answer to an action that was refused. `field`: that of its form which the words are about, or empty."""
    known = ACTIONS.get(action)
    field = "" if known is None else known.field_of(error.hint, error.code, error.message)
    return {"ok": False, "code": error.code, "words": error.message, "hint": error.hint, "field": field}
