"""Ranks the permission modes of claude, and limits a child to the mode of its parent. Pure."""

from collections.abc import Mapping, Sequence

from sm.providers.claude.dialect import current
from sm.providers.claude.options import BYPASS

_SKIP = "--dangerously-skip-permissions"
_MAY_SKIP = "--allow-dangerously-skip-permissions"
_MODE = "--permission-mode"

DEFAULT = "default"
MANUAL = "manual"
"""The word of later versions for DEFAULT, with which they show it. Hooks and 2.1.197 say DEFAULT (measured)."""
AUTO = "auto"


def ranks() -> Mapping[str, int]:
    """The modes, ordered by the actions that need no approval, as measured in a trusted directory with 2.1.332.

    The first three let the same actions run (reading files, `ls`), acceptEdits also writes and simple commands such as
    `touch` and `rm -f` there, auto what a model allows, bypassPermissions everything. With 2.1.332 this needs
    `Abilities.own_settings` for plan. dontAsk refuses the actions for which default asks. If it ranked above default, a
    parent in dontAsk could start a child in default and approve actions that claude refuses to the parent.
    """
    return current().table("modes.ranks")


def canonical(mode: str) -> str:
    """The one word for a mode that has two."""
    return str(current().table("modes.words").get(mode, mode))


def shown_mode(mode: str) -> str:
    """The word for people, which says what the mode does."""
    return MANUAL if mode == DEFAULT else mode


def mode_of(flags: Sequence[str]) -> str | None:
    """Return the permission mode in the flags, as `canonical`, or None without one. The last one wins."""
    word = mode_word_in(flags)
    return None if word is None else canonical(word)


def mode_word_in(flags: Sequence[str]) -> str | None:
    """Return the word for the permission mode in the flags, as it is written there, or None without one."""
    mode = None
    for index, flag in enumerate(flags):
        if flag == _SKIP:
            return BYPASS
        name, equals, value = flag.partition("=")
        if name == _MODE:
            mode = value if equals else next(iter(flags[index + 1 :]), None)
    return mode


def bypasses(flags: Sequence[str]) -> bool:
    """Return whether claude bypasses permissions or may switch to that mode. Claude refuses both to root (measured)."""
    return _MAY_SKIP in flags or mode_of(flags) == BYPASS


def limit_to_parent(
    flags: Sequence[str],
    parent: Sequence[str],
    parent_mode: str = "",
    *,
    is_attended: bool = False,
    program: int = 1,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Limit `flags` to the permissions of a claude started with the flags `parent`. Returns flags and warnings.

    `parent_mode`: the mode that the parent reported last, empty for that of its flags. Agents can forge a report, so
    one of a higher mode counts only with `is_attended`: the operator had the parent's terminal on the screen.

    The result always sets the lower mode of both. Without a mode claude would use the settings of the user or project,
    and agents can write the latter (measured). So a child without a mode gets the parent's mode, and a parent without a
    mode passes on `default`, although its settings may have given it another one. A parent that bypasses permissions
    limits no known mode.

    An unknown mode ranks highest for the child and lowest for the parent. The first `program` words are the program.
    The mode follows directly, so that no option can consume it as a value.
    """
    order = ranks()
    wanted, most = mode_of(flags), mode_of(parent) or DEFAULT
    now = canonical(parent_mode)
    if now and (is_attended or order.get(now, -1) < order.get(most, -1)):
        most = now
    if most == BYPASS and (wanted is None or wanted in order):
        return tuple(flags), ()
    warnings = []
    requested = wanted or DEFAULT
    is_more = requested != most and order.get(requested, len(order)) > order.get(most, -1)
    if is_more:
        warnings.append(_warning(f"permission mode {shown_mode(most)}, not {shown_mode(requested)}"))
    kept = with_mode(flags, most if is_more or wanted is None else wanted, program=program)
    if _MAY_SKIP in kept and _MAY_SKIP not in parent and most != BYPASS:
        kept = tuple(flag for flag in kept if flag != _MAY_SKIP)
        warnings.append(_warning(f"without {_MAY_SKIP}"))
    return kept, tuple(warnings)


def with_mode(flags: Sequence[str], mode: str, *, program: int = 1) -> tuple[str, ...]:
    """`flags` with exactly this mode, right after the first `program` words."""
    return (*_without_mode(flags[:program]), _MODE, mode, *_without_mode(flags[program:]))


def _warning(what: str) -> str:
    return (
        f"{what}: limited by the parent's permissions; to allow more, set spawnable: true for the agent type"
    )


def _without_mode(flags: Sequence[str]) -> tuple[str, ...]:
    kept, rest = [], iter(flags)
    for flag in rest:
        if flag == _MODE:
            next(rest, None)
        elif flag != _SKIP and not flag.startswith(f"{_MODE}="):
            kept.append(flag)
    return tuple(kept)
