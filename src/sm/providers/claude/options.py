"""Checks and maps the command-line options of claude. Pure.

Source: `claude --help` and the hidden options of claude 2.1.197, and trials with it.
"""

from collections.abc import Iterable, Mapping, Sequence

from sm.core.dataclass import dataclass
from sm.errors import UsageError
from sm.providers.claude.dialect import current

BYPASS = "bypassPermissions"

LEGACY: Mapping[str, tuple[str, ...]] = {
    "--bypass-permissions": ("--permission-mode", BYPASS),
    "--plan": ("--permission-mode", "plan"),
    "--compact": (),
}
"""Options that claude does not have (exit code 1), and their replacements."""


@dataclass(frozen=True, slots=True)
class Options:
    """Merged options. The model is separate, because the last one wins."""

    arguments: tuple[str, ...]
    model: str | None
    warnings: tuple[str, ...] = ()


def merge_options(layers: Iterable[tuple[str | None, Sequence[str]]]) -> Options:
    """Merge layers of model and options. Later layers win, as in claude itself (measured).

    Raises UsageError for an option that sm sets itself or that prevents a session.
    """
    kept: list[str] = []
    warnings: dict[str, None] = {}
    chosen: str | None = None
    for model, arguments in layers:
        chosen = model or chosen
        rest = iter(arguments)
        first = True
        for argument in rest:
            name, _, value = argument.partition("=")
            if first and not argument.startswith("-"):
                raise UsageError(f"{argument!r} is not an option: claude would read it as a prompt")
            first = False
            _check(argument, name)
            if name == "--model":
                chosen = value if "=" in argument else next(rest, "")
                if not chosen or chosen.startswith("-"):
                    raise UsageError(f"invalid value for --model: {chosen!r}")
            elif argument in LEGACY:
                kept += LEGACY[argument]
                warnings[_legacy_warning(argument)] = None
            else:
                kept.append(argument)
    return Options(tuple(kept), chosen, tuple(warnings))


def resumable_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """The arguments of an adopted claude that also apply to later processes of its conversation.

    Parsed as in claude: a value follows its option, whatever its text, but multiple values end before the next `-`.
    Omits the prompt and unknown options with their possible values, which could look like
    `--dangerously-skip-permissions`.
    """
    flags: list[str] = []
    rest, kept = list(arguments), current().table("options.kept")
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            break
        name, equals, _ = argument.partition("=")
        values = kept.get(name)
        if values is None:
            short = not name.startswith("--") and name != "-n"
            if not (equals or short or name in current().texts("options.optional")):
                del rest[:1]
            continue
        if equals and not values:
            continue
        taken = [argument]
        if not equals and values == "1":
            taken += rest[:1]
            del rest[:1]
        while not equals and values == "*" and rest and not rest[0].startswith("-"):
            taken.append(rest.pop(0))
        if equals or not values or len(taken) > 1:
            flags += taken
    return tuple(flags)


def _check(argument: str, name: str) -> None:
    # Commander parses `-rID` as `-r ID`. Values that begin like this usually contain a blank.
    short = argument[:2] if not argument.startswith("--") and " " not in argument else ""
    refused = current().table("options.refused")
    for option in (name, short):
        if option in refused:
            raise UsageError(f"claude's option {option} cannot be used with sm: {refused[option]}")


def _legacy_warning(argument: str) -> str:
    instead = " ".join(LEGACY[argument])
    return f"claude has no option {argument}; {f'sm uses {instead}' if instead else 'sm omits the option'}"


def is_sandbox_environment(environment: Mapping[str, str]) -> bool:
    """Return whether claude treats this environment as a sandbox, in which root may bypass permissions.

    claude accepts only "1", not `yes` (measured).
    """
    return environment.get("IS_SANDBOX") == "1" or bool(environment.get("CLAUDE_CODE_BUBBLEWRAP"))
