"""The actions that fit an entry of the queue: its buttons, and what its menu offers beside them. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from sm.board.actions import ACTIONS
from sm.board.board_action import BoardAction, Target
from sm.board.needs import NeedKind


class NeedActions(NamedTuple):
    """Names of actions, without those that are not possible."""

    buttons: Sequence[str]
    menu: Sequence[str]


_OF_KIND: Mapping[NeedKind, NeedActions] = {
    NeedKind.FAILURE: NeedActions(("restore",), ("seen", "archive")),
    NeedKind.DONE: NeedActions(("seen",), ("archive", "restore")),
    NeedKind.STALE: NeedActions((), ("interrupt", "attach")),
}
_OF_MESSAGE = NeedActions(("read",), ())


def need_actions(
    target: Target, refusal: Callable[[BoardAction, Target], str | None] | None = None
) -> NeedActions:
    """The actions of an entry. `refusal`: that of the view, if it allows less than the board."""
    need = target.need
    if need is None:
        return NeedActions((), ())
    if need.request is not None:
        wanted = _of_request(target)
    else:
        wanted = _OF_KIND.get(need.kind, _OF_MESSAGE)

    def possible(names: Sequence[str]) -> list[str]:
        found = [ACTIONS[name] for name in names if name in ACTIONS]
        ask = refusal or (lambda action, target: action.refusal(target))
        return [action.name for action in found if ask(action, target) is None]

    return NeedActions(possible(wanted.buttons), possible(wanted.menu))


def _of_request(target: Target) -> NeedActions:
    if ACTIONS["answer"].refusal(target) is None:
        return NeedActions(("answer", "deny"), ("attach", "interrupt"))
    if ACTIONS["approve"].refusal(target) is not None:
        return NeedActions(("attach",), ("interrupt",))
    return NeedActions(("approve", "deny"), ("always", "attach", "interrupt"))
