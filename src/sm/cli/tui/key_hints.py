"""The keys that the last line of `sm top` and of its pages names, the most useful first. Pure."""

from collections.abc import Sequence
from typing import assert_never

from rich.cells import cell_len

from sm.board import ACTIONS, NeedKind, Target
from sm.board.details import shown_target
from sm.board.main_actions import SHOWN, main_actions
from sm.board.needs import BoardNeed
from sm.cli.tui.texts import DETAILS, Hint, equal_hints, request_hints

_SEEN: Hint = ("m", "mark as seen")
_TO_LIST, _TO_NEEDS = ("Tab", "list"), ("Tab", "needs you")
_ALWAYS: Sequence[Hint] = (("?", "help"), ("q", "quit"))
_TABS: Hint = ("[ ]", "other tab")
_KEYS: Hint = ("?", "keys")
_NAMES = {action.key: name for name, action in ACTIONS.items()}
_MORE: Sequence[Hint] = (("s", "send"), ("n", "new"), ("/", "filter"), ("Ctrl-K", "actions"), ("b", "to all"))
"""The hints for wider screens, the most useful first."""


def key_hints(target: Target, found: Sequence[BoardNeed], equal: int = 0) -> Sequence[Hint]:
    """The keys for what is selected, the most useful first.

    `found`: the entries that need the person; `equal`: the number of requests that may be answered together.
    """
    need, row = target.need, target.row
    if need is not None:
        return _of_need(need, _of_session(target, found), equal)
    if row is None:
        return (("n", "start an agent"), ("/", "filter"), ("+", "workspace"))
    waiting = shown_target(target, found).need
    if waiting is not None:
        return (("a", f"go to {waiting.key}"), *equal_hints(equal), DETAILS, *_of_session(target, found))
    seen = [_SEEN] if row.attention in ("failed", "done") else []
    return (*_of_session(target, found), DETAILS, *seen)


def _of_need(need: BoardNeed, of_session: Sequence[Hint], equal: int) -> Sequence[Hint]:
    """The keys for an entry. `of_session`: those that fit its session."""
    match need.kind:
        case NeedKind.REQUEST:
            return request_hints(need, equal)
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


def hint_line(target: Target, found: Sequence[BoardNeed], width: int, equal: int = 0) -> str:
    """As many hints as `width` cells have room for, and always those for help and to quit."""
    switch = [_TO_LIST if target.need is not None else _TO_NEEDS] if found else []
    wanted = [hint for hint in key_hints(target, found, equal) if _is_possible(hint, target)]
    wanted += [
        hint
        for hint in (*switch, *_MORE)
        if hint[0] not in {key for key, _ in wanted} and _is_possible(hint, target)
    ]
    return _fitted(wanted, _ALWAYS, width)


def lost_line(width: int) -> str:
    """The line without a daemon, which refuses all actions."""
    words, keys = "Your agents keep running. To start the daemon: sm daemon start", _text(_ALWAYS)
    return f"{words}  {keys}" if cell_len(words) + cell_len(keys) + 2 <= width else keys


def page_hints(target: Target, found: Sequence[BoardNeed]) -> Sequence[Hint]:
    """The keys of all actions on the page of a session, first those for its request, then those for its state.

    `target`: with the request only if the page shows it. `found`: the entries that need the person.
    """
    hints = list[Hint]()
    if target.need is not None:
        hints += [(key, effect) for key, effect in request_hints(target.need) if key in _NAMES]
    elif (waiting := shown_target(target, found).need) is not None:
        hints.append(("a", f"go to {waiting.key}"))
    possible = [action.name for action in ACTIONS.values() if action.refusal(target) is None]
    for name in (*main_actions(target, found).names, *possible):
        if ACTIONS[name].key not in {key for key, _ in hints}:
            hints.append((ACTIONS[name].key, name))
    return [hint for hint in hints if _is_possible(hint, target)]


def page_line(hints: Sequence[Hint], width: int, *, has_tabs: bool = True) -> str:
    """As many hints as `width` cells have room for, and always those for tabs and for all keys."""
    return _fitted(hints, (_TABS, _KEYS) if has_tabs else (_KEYS,), width)


def _fitted(wanted: Sequence[Hint], always: Sequence[Hint], width: int) -> str:
    kept, left = list[str](), width - cell_len(_text(always)) - 2
    for hint in wanted:
        text = _text([hint])
        left -= cell_len(text) + (2 if kept else 0)
        if left < 0:
            break
        kept.append(text)
    return "  ".join([*kept, _text(always)])


def _text(hints: Sequence[Hint]) -> str:
    return "  ".join(f"{key}: {effect}" for key, effect in hints)


def _is_possible(hint: Hint, target: Target) -> bool:
    """Return whether the action of the key is possible for the target; other keys always are."""
    name = _NAMES.get(hint[0])
    return name is None or hint[1].startswith("go to ") or ACTIONS[name].refusal(target) is None
