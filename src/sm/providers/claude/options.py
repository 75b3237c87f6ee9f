"""Checks and maps the command-line options of claude. Pure.

Source: `claude --help` and the hidden options of claude 2.1.197, and trials with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sm.errors import UsageError

BYPASS = "bypassPermissions"

LEGACY: Mapping[str, tuple[str, ...]] = {
    "--bypass-permissions": ("--permission-mode", BYPASS),
    "--plan": ("--permission-mode", "plan"),
    "--compact": (),
}
"""Options that claude does not have (exit code 1), and their replacements."""

_OURS = "sm sets this option"
_BLIND = "sm could not observe the agent"
_ELSEWHERE = "the agent would leave its directory and its terminal"

_REFUSED: Mapping[str, str] = {
    "--session-id": _OURS,
    "--settings": f"{_OURS}; change claude's own settings.json instead",
    **dict.fromkeys(("--name", "-n"), "use sm spawn --name"),
    **dict.fromkeys(
        ("--append-system-prompt", "--append-system-prompt-file"),
        f"{_OURS}; set `prompt` of the agent type in config.yaml instead",
    ),
    **dict.fromkeys(
        ("--resume", "-r", "--continue", "-c", "--fork-session", "--from-pr", "--teleport"),
        "claude would resume a conversation of another session",
    ),
    **dict.fromkeys(("--cloud", "--desktop", "--environment", "--remote", "--tmux"), _ELSEWHERE),
    "--system-prompt-snapshot": _OURS,
    **dict.fromkeys(
        ("--worktree", "-w"), f"{_ELSEWHERE}; use sm spawn --worktree"
    ),
    **dict.fromkeys(
        (
            "--bg", "--background", "--print", "-p", "--init-only", "--rewind-files", "--help", "-h", "--version", "-v",
        ),
        "claude would exit instead of waiting for input",
    ),
    **dict.fromkeys(
        ("--output-format", "--input-format", "--sdk-url"),
        "the option needs --print, with which claude does not wait for input",
    ),
    "--no-session-persistence": _BLIND,
    **dict.fromkeys(("--bare", "--safe-mode"), f"{_BLIND}, because no hook would run"),
    "--ax-screen-reader": f"{_BLIND}, because the screen would have another layout",
    **dict.fromkeys(
        ("--prefill", "--prefill-b64"), "the text would stay in the input box, and sm could not deliver messages"
    ),
    "--": "claude would read the words after it as a prompt",
}  # fmt: skip
"""Refused options with their reasons."""


_KEPT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions", "--strict-mcp-config",
            "--verbose", "--ide", "--chrome", "--no-chrome", "--brief", "--disable-slash-commands",
            "--exclude-dynamic-system-prompt-sections", "--restricted",
        ),
        "",
    ),
    **dict.fromkeys(
        (
            "--model", "--permission-mode", "--effort", "--agent", "--agents", "--setting-sources", "--system-prompt",
            "--system-prompt-file", "--fallback-model", "--plugin-dir", "--plugin-url", "--autocompact",
        ),
        "1",
    ),
    **dict.fromkeys(
        (
            "--allowedTools", "--allowed-tools", "--disallowedTools", "--disallowed-tools", "--tools", "--add-dir",
            "--mcp-config", "--betas",
        ),
        "*",
    ),
}  # fmt: skip
"""Options of an adopted claude that are kept when its conversation is resumed, with the number of values: "", "1", or
"*" for all following words."""

_ALONE = frozenset({
    "--continue", "--resume", "--fork-session", "--from-pr", "--debug", "--remote-control", "--worktree", "--tmux",
    "--teleport", "--bare", "--safe-mode", "--ax-screen-reader", "--prompt-suggestions", "--cloud", "--desktop",
    "--forward-subagent-text",
})  # fmt: skip
"""Options that are not kept and whose value is optional."""


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
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            break
        name, equals, _ = argument.partition("=")
        values = _KEPT.get(name)
        if values is None:
            short = not name.startswith("--") and name != "-n"
            if not (equals or short or name in _ALONE):
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
    for option in (name, short):
        if option in _REFUSED:
            raise UsageError(f"claude's option {option} cannot be used with sm: {_REFUSED[option]}")


def _legacy_warning(argument: str) -> str:
    instead = " ".join(LEGACY[argument])
    return f"claude has no option {argument}; {f'sm uses {instead}' if instead else 'sm omits the option'}"


def is_sandbox_environment(environment: Mapping[str, str]) -> bool:
    """Return whether claude treats this environment as a sandbox, in which root may bypass permissions.

    claude accepts only "1", not `yes` (measured).
    """
    return environment.get("IS_SANDBOX") == "1" or bool(environment.get("CLAUDE_CODE_BUBBLEWRAP"))
