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


def bypasses(flags: Sequence[str]) -> bool:
    """Whether claude would ask for no permission, or could be told so: what it refuses to root (measured)."""
    return _MAY_SKIP in flags or mode_of(flags) == BYPASS


def capped(
    flags: Sequence[str], parent: Sequence[str], *, program: int = 1
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`flags` with no more permissions than a claude has that was started with `parent`, and warnings.

    The mode is always said, the lower of both: else claude takes that of the user's or the project's settings, and
    agents can write the latter (measured). For the same reason a child for which none is given could have any, so it
    gets its parent's; and a parent for which none was given hands on `default`, whatever its settings gave to it.
    Below a parent that bypasses all nothing is more, and nothing is said.

    A mode that is not known here counts as more than all others for the child, and as less for the parent. The first
    `program` words are the program: the mode stands right behind them, where no option can take it for its value.
    """
    wanted, most = mode_of(flags), mode_of(parent) or DEFAULT
    if most == BYPASS and (wanted is None or wanted in RANKS):
        return tuple(flags), ()
    warnings = []
    asked = wanted or DEFAULT
    is_more = asked != most and RANKS.get(asked, _UNKNOWN) > RANKS.get(most, -1)
    if is_more:
        warnings.append(_warning(f"permission mode {most}, not {asked}"))
    mode = most if is_more or wanted is None else wanted
    kept = (*_without_mode(flags[:program]), _MODE, mode, *_without_mode(flags[program:]))
    if _MAY_SKIP in kept and _MAY_SKIP not in parent and most != BYPASS:
        kept = tuple(flag for flag in kept if flag != _MAY_SKIP)
        warnings.append(_warning(f"without {_MAY_SKIP}"))
    return kept, tuple(warnings)


def _warning(what: str) -> str:
    return f"{what}: its parent has no more; spawnable: true in the configuration lifts that"


def _without_mode(flags: Sequence[str]) -> tuple[str, ...]:
    kept, rest = [], iter(flags)
    for flag in rest:
        if flag == _MODE:
            next(rest, None)
        elif flag != _SKIP and not flag.startswith(f"{_MODE}="):
            kept.append(flag)
    return tuple(kept)
