"""The keys that the last line of `sm top` names: first those that matter for what is selected. Pure."""

from collections.abc import Sequence
from typing import assert_never

from rich.cells import cell_len

from sm.board import ACTIONS, NeedKind, Target
from sm.board.details import shown_target
from sm.board.main_actions import SHOWN, main_actions
from sm.board.needs import BoardNeed
from sm.cli.tui.texts import DETAILS, Hint, request_hints

_SEEN: Hint = ("m", "mark as seen")
_TO_LIST, _TO_NEEDS = ("Tab", "list"), ("Tab", "needs you")
_ALWAYS: Sequence[Hint] = (("?", "help"), ("q", "quit"))
_MORE: Sequence[Hint] = (("s", "send"), ("n", "new"), ("/", "filter"), ("Ctrl-K", "actions"), ("b", "to all"))
"""The hints for wider screens, the most useful first."""


def key_hints(target: Target, found: Sequence[BoardNeed]) -> Sequence[Hint]:
    """The keys for what is selected, the most useful first. `found`: the entries that need the person."""
    need, row = target.need, target.row
    if need is not None:
        return _of_need(need, _of_session(target, found))
    if row is None:
        return (("n", "start an agent"), ("/", "filter"), ("+", "workspace"))
    waiting = shown_target(target, found).need
    if waiting is not None:
        return (("a", f"go to {waiting.key}"), DETAILS, *_of_session(target, found))
    seen = [_SEEN] if row.attention in ("failed", "done") else []
    return (*_of_session(target, found), DETAILS, *seen)


def _of_need(need: BoardNeed, of_session: Sequence[Hint]) -> Sequence[Hint]:
    """The keys for an entry. `of_session`: those that fit its session."""
    match need.kind:
        case NeedKind.REQUEST:
            return request_hints(need)
        case NeedKind.MESSAGE if need.message_id is not None:
            return (("M", "mark as read"), ("s", "reply"), DETAILS)
        case NeedKind.MESSAGE:
            return (("s", "send again"), DETAILS, *of_session)
        case NeedKind.LOSS | NeedKind.DAEMON:
            return (("c", "copy its command"), DETAILS)
        case NeedKind.FAILURE:
            return (*of_session[:1], DETAILS, _SEEN)
        case NeedKind.STALE:
            return (*of_session, DETAILS)
        case NeedKind.DONE:
            return (DETAILS, _SEEN, *of_session[:1])
        case _:
            assert_never(need.kind)


def _of_session(target: Target, found: Sequence[BoardNeed]) -> Sequence[Hint]:
    """The actions that fit the state of the session."""
    fitting = [ACTIONS[name] for name in main_actions(target, found).names[:SHOWN]]
    return [(action.key, action.name) for action in fitting]


def hint_line(target: Target, found: Sequence[BoardNeed], width: int) -> str:
    """As many hints as `width` cells have room for, and always those for help and to quit."""
    switch = [_TO_LIST if target.need is not None else _TO_NEEDS] if found else []
    wanted = [hint for hint in key_hints(target, found) if _is_possible(hint, target)]
    wanted += [
        hint
        for hint in (*switch, *_MORE)
        if hint[0] not in {key for key, _ in wanted} and _is_possible(hint, target)
    ]
    kept, left = list[str](), width - cell_len(_text(_ALWAYS)) - 2
    for hint in wanted:
        text = _text([hint])
        left -= cell_len(text) + (2 if kept else 0)
        if left < 0:
            break
        kept.append(text)
    return "  ".join([*kept, _text(_ALWAYS)])


def _text(hints: Sequence[Hint]) -> str:
    return "  ".join(f"{key}: {effect}" for key, effect in hints)


def _is_possible(hint: Hint, target: Target) -> bool:
    """Return whether the action of the key is possible for the target; other keys always are."""
    action = next((action for action in ACTIONS.values() if action.key == hint[0]), None)
    leads_to_request = action is not None and hint[1].startswith("go to ")
    return action is None or leads_to_request or action.refusal(target) is None
