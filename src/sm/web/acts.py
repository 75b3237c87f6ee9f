"""Carries out what a person does in a browser, if the login and the shown words allow it."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sm.board import ACTIONS, BoardAction, BoardNeed, Target
from sm.client.http import START_TIMEOUT_S, TIMEOUT_S, percent_encode
from sm.core.message_lines import outcome
from sm.core.request_lines import verdict
from sm.core.states import OPEN_STATES
from sm.errors import IllegalState, NotFound, NotPermitted, SmError, UsageError
from sm.web.client_frames import ActFrame, InvalidFrame, action_input
from sm.web.daemon_link import DaemonLink
from sm.web.hub import Hub
from sm.web.logins import scope_of
from sm.web.tab import Tab

_UNDO_MAX = 20
_DELIVERY_S = 5
_DECISIONS = frozenset({"approve", "deny", "answer"})


class ShownChanged(IllegalState, code="shown_changed"):
    """The person decided on other words than those that hold now."""


@dataclass(frozen=True, slots=True)
class ActResult:
    words: str
    undo: str | None


class Acts:
    """The actions of one tab."""

    def __init__(self, hub: Hub, link: DaemonLink, tab: Tab) -> None:
        self._hub = hub
        self._link = link
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
        try:
            words = action_input(frame)
        except InvalidFrame as error:
            raise UsageError(str(error)) from None
        target = self._target(frame, action)
        call = action.call(target, words)
        timeout_s = START_TIMEOUT_S if call.is_long else TIMEOUT_S
        key = secrets.token_hex(16)
        try:
            answer = await self._link.post(
                call.path, call.body, login=self._tab.login, key=key, timeout_s=timeout_s
            )
        finally:
            self._hub.reload()
        if action.undo is not None and target.session_id is not None:
            self._undone[action.undo, target.session_id] = target
            while len(self._undone) > _UNDO_MAX:
                del self._undone[next(iter(self._undone))]
        if action.name == "send":
            return ActResult(await self._message_words(answer), None)
        return ActResult(f"done: {action.command_line(target, words)}", action.undo)

    async def _message_words(self, message: Mapping[str, Any]) -> str:
        """The state of a sent message, after a short wait. Raises SmError for one that failed."""
        if message["status"] in OPEN_STATES:
            path, query = f"/v1/messages/{message['message_id']}", {"wait_s": str(_DELIVERY_S)}
            message = await self._link.get(path, query, login=self._tab.login, timeout_s=TIMEOUT_S)
        return outcome(message, must_arrive=False)

    async def settled_words(self, key: str) -> str | None:
        """Say who answered a request; None: it is still open."""
        path = f"/v1/requests/{percent_encode(key)}"
        request = await self._link.get(path, login=self._tab.login, timeout_s=TIMEOUT_S)
        is_open = request["state"] == "open" and request["answer"] is None
        return None if is_open else f"{key}: {verdict(request)}"

    def _target(self, frame: ActFrame, action: BoardAction) -> Target:
        """The present target. Raises SmError if it is not the one that the person saw."""
        situation, clock_s = self._hub.situation, time.monotonic()
        if situation.table.lost_for_s(clock_s) is not None:
            raise IllegalState("there is no daemon: what is shown is not up to date", "sm daemon start")
        need = None
        if frame.need is not None:
            need = next((need for need in situation.found if need.key == frame.need), None)
            if need is None:
                raise IllegalState(f"{frame.need} is no longer open")
        if action.name in _DECISIONS:
            self._check_shown(frame, need, clock_s)
        row = self._tab.source.table.rows.get((need.session_id if need is not None else frame.session) or "")
        undone = self._undone.pop((action.name, frame.session or ""), None) if need is None else None
        if row is None and undone is not None:
            return undone
        if row is None and need is None and frame.session is not None:
            raise NotFound(f"no such session: {frame.session}")
        target = Target(row, need)
        if reason := action.refusal(target):
            raise IllegalState(f"not possible: {reason}")
        return target

    def _check_shown(self, frame: ActFrame, need: BoardNeed | None, clock_s: float) -> None:
        if need is None:
            raise UsageError("a decision needs the request that was shown")
        if frame.shown is None or frame.shown != need.digest or not self._tab.guard.has_shown(need):
            raise ShownChanged(f"{need.key} has changed since it was shown", "read it again, then decide")
        if self._tab.guard.is_dead(need.key, clock_s):
            raise ShownChanged(f"too early: {need.key} has just appeared or changed", "read it, then decide")


_LINK_HINT = "to allow more: sm web link --scope all"


def error_fields(error: SmError) -> dict[str, Any]:
    return {"ok": False, "code": error.code, "words": error.message, "hint": error.hint}
