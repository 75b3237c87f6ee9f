"""Permission modes of claude: which allows more than which, and what an agent may have below another one. Pure."""

from collections.abc import Sequence

from sm.providers.claude.options import BYPASS

_SKIP = "--dangerously-skip-permissions"
_MAY_SKIP = "--allow-dangerously-skip-permissions"
_MODE = "--permission-mode"

DEFAULT = "default"
RANKS = {"plan": 0, "dontAsk": 1, DEFAULT: 2, "acceptEdits": 3, "auto": 4, BYPASS: 5}
"""By what is done without a person's word. The order of claude 2.1.197 itself, but for dontAsk, which refuses what
default would ask for: there a parent could grant to its child what nobody grants to the parent. auto asks a model."""
_UNKNOWN = len(RANKS)


def mode_of(flags: Sequence[str]) -> str | None:
    """The permission mode that claude is started in with these; None: none is given. Of two the last counts."""
    mode = None
    for index, flag in enumerate(flags):
        if flag == _SKIP:
            return BYPASS
        name, equals, value = flag.partition("=")
        if name == _MODE:
            mode = value if equals else next(iter(flags[index + 1 :]), None)
    return mode


def capped(flags: Sequence[str], parent: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`flags` with no more permissions than a claude has that was started with `parent`, and warnings.

    A mode that is not known here counts as more than all others for the child, and as less for the parent.
    """
    kept, warnings = tuple(flags), []
    wanted, most = mode_of(flags) or DEFAULT, mode_of(parent) or DEFAULT
    if wanted != most and RANKS.get(wanted, _UNKNOWN) > RANKS.get(most, -1):
        given = mode_of(parent)
        kept = (*_without_mode(kept), *(() if given is None else (_MODE, given)))
        warnings.append(_warning(f"permission mode {most}, not {wanted}"))
    if _MAY_SKIP in kept and _MAY_SKIP not in parent and most != BYPASS:
        kept = tuple(flag for flag in kept if flag != _MAY_SKIP)
        warnings.append(_warning(f"without {_MAY_SKIP}"))
    return kept, tuple(warnings)


def _warning(what: str) -> str:
    return f"{what}: its parent has no more; spawnable: true in the configuration lifts that"


def _without_mode(flags: tuple[str, ...]) -> tuple[str, ...]:
    kept, rest = [], iter(flags)
    for flag in rest:
        if flag == _MODE:
            next(rest, None)
        elif flag != _SKIP and not flag.startswith(f"{_MODE}="):
            kept.append(flag)
    return tuple(kept)
