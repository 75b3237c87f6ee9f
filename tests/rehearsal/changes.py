"""The changes that a release of Claude Code may bring, each with the data that mends it, if data can."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.rehearsal.rewriting import rename_key, replace_value

_Json = dict[str, Any]


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Change:
    """One change. All functions get what the real program has, or what sm gives to it."""

    name: str
    sentence: str
    """For people: what the release changes."""
    breaks: Sequence[str]
    """The contracts that break."""
    mends: str | None
    """The operator's dialect with which they hold again, or None if no data can mend it."""
    screen: Mapping[str, str] = field(default_factory=dict)
    title: Callable[[str], str] | None = None
    hook: Callable[[_Json], Any] = _same
    ignores_answers: bool = False
    state: Callable[[_Json], Any] = _same
    lines: Callable[[_Json], Sequence[Any]] = lambda value: [value]
    """Returns the lines of the transcript in place of one."""
    settings: Callable[[_Json], Any] = _same
    arguments: Callable[[list[str]], list[str]] = _same
    environment: Callable[[dict[str, str]], dict[str, str]] = _same
    help: Callable[[str], str] = _same
    unknown_options: Sequence[str] = ()
    unknown_modes: Sequence[str] = ()
    """Permission modes. The program ends at an unknown option and an unknown mode."""

    @property
    def rewrites_hooks(self) -> bool:
        return self.hook is not _same or self.ignores_answers or self.rewrites_files

    @property
    def rewrites_files(self) -> bool:
        return self.state is not _same or self.lines(_PROBE) != [_PROBE]


_PROBE: _Json = {
    "type": "assistant",
    "message": {"role": "user", "content": "x" * 1000, "usage": {"input_tokens": 1}},
}


# Wrappers, titles, options


def _wrapped(text: str) -> str:
    """The text as a release may report it that marks long texts."""
    is_long = len(text) > 800 or text.count("\n") > 2
    return f'<long_text id="8885">\n{text.rstrip()}\n</long_text id="8885">\n' if is_long else text


def _wrapped_hook(payload: _Json) -> _Json:
    prompt = payload.get("prompt")
    return {**payload, "prompt": _wrapped(prompt)} if isinstance(prompt, str) else payload


def _wrapped_line(value: _Json) -> Sequence[Any]:
    message = value.get("message")
    if (
        not isinstance(message, dict)
        or message.get("role") != "user"
        or not isinstance(message.get("content"), str)
    ):
        return [value]
    return [{**value, "message": {**message, "content": _wrapped(message["content"])}}]


def _other_glyphs(title: str) -> str:
    glyph, blank, words = title.partition(" ")
    return title if len(glyph) != 1 or not blank else f"{'◇' if glyph == '✳' else '▸'} {words}"


def _no_glyph(title: str) -> str:
    glyph, blank, words = title.partition(" ")
    return words if blank and len(glyph) == 1 else title


def _careful_mode(arguments: list[str]) -> list[str]:
    """Take the new word for a mode, and the word of the real program."""
    return ["manual" if word == "careful" else word for word in arguments]


def _with_careful_mode(shown: str) -> str:
    return re.sub(r'"(?:default|manual)"', '"careful"', shown)


def _screen_setting(settings: _Json) -> _Json:
    """Take the new name of a setting, whose default is another now."""
    main = settings.get("screen") == "main"
    return {**settings, "tui": "default" if main else "fullscreen"}


def _call_variable(environment: dict[str, str]) -> dict[str, str]:
    """Take the new name of a variable only."""
    known = "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS"
    rest = {name: value for name, value in environment.items() if name != known}
    new = environment.get("CLAUDE_CODE_LONG_CALL_MS")
    return rest if new is None else {**rest, known: new}


def _new_types(value: _Json) -> Sequence[Any]:
    kind = value.get("type")
    return [
        {"type": "reasoning-graph", "nodes": [1, 2, {"type": "assistant"}]},
        {**value, "type": "model_turn"} if kind == "assistant" else value,
    ]


def _state_words(value: _Json) -> Any:
    words = {"idle": "ready", "busy": "working", "waiting": "asking"}
    return rename_key(replace_value(value, "status", words), "status", "phase")


_ALL = (
    Change(
        "trust-words",
        "The question whether to trust a directory has other words.",
        ["dialogs"],
        """
        [start.trust.option]
        phrases = ["Sure, this folder*"]
        [answer.trust.approve]
        phrases = ["Sure, this folder's fine"]
        [answer.trust.title]
        phrases = ["Opening a directory:*"]
        """,
        screen={
            "Yes, I trust this folder": "Sure, this folder's fine",
            "Accessing workspace:": "Opening a directory:",
        },
    ),
    Change(
        "option-numbers",
        "The options of dialogs have no numbers.",
        ["screens"],
        """
        [dialog.numbered]
        careful = false
        """,
        screen={f"{number}. {label}": f"   {label}" for number in range(1, 6) for label in "YN"},
    ),
    Change(
        "hook-field",
        "A hook calls `tool_name` only `tool`.",
        ["permission", "question", "plan"],
        """
        [renamed.hook]
        table = { tool = "tool_name" }
        """,
        hook=lambda payload: rename_key(payload, "tool_name", "tool"),
    ),
    Change(
        "text-wrapper",
        "Long prompts are reported within `<long_text>`.",
        ["text", "long-text"],
        """
        [paste.tags]
        texts = ["long_text"]
        """,
        hook=_wrapped_hook,
        lines=_wrapped_line,
    ),
    Change(
        "mode-word",
        "The permission mode `default` is called `careful`, also in hooks.",
        ["start", "text", "queue", "permission", "usage"],
        """
        [modes.words]
        table = { careful = "default" }
        """,
        hook=lambda payload: replace_value(payload, "permission_mode", {"default": "careful"}),
        arguments=_careful_mode,
        help=_with_careful_mode,
        unknown_modes=("default", "manual"),
    ),
    Change(
        "title-glyphs",
        "The title has other glyphs.",
        ["screens"],
        """
        [title.idle]
        texts = ["◇"]
        [title.busy]
        texts = ["▸"]
        """,
        title=_other_glyphs,
    ),
    Change(
        "title-bare",
        "The title has no glyph.",
        ["screens"],
        """
        [title.has_state]
        careful = false
        """,
        title=_no_glyph,
    ),
    Change(
        "transcript-types",
        "The transcript has lines of a new type, and calls the lines of the model `model_turn`.",
        ["usage"],
        """
        [transcript.types]
        table = { model_turn = "assistant" }
        """,
        lines=_new_types,
    ),
    Change(
        "answer-ignored",
        "The decision of a hook has no effect.",
        ["permission", "question", "plan"],
        None,
        ignores_answers=True,
    ),
    Change(
        "screen-default",
        "The alternate screen is the default, and its setting has another name.",
        ["end"],
        """
        [settings.own]
        table = { screen = "main" }
        """,
        settings=_screen_setting,
    ),
    Change(
        "permission-words",
        "The dialog of a permission has other words.",
        ["screens"],
        """
        [dialog.permission]
        phrases = ["Shall claude *"]
        """,
        screen={"Do you want to proceed?": "Shall claude go ahead ?", "Do you want to ": "Shall claude   "},
    ),
    Change(
        "background-kind",
        "A sub-agent in the background is called `helper`.",
        ["background"],
        """
        [background.agents]
        texts = ["helper"]
        [background.names]
        table = { helper = "sub-agents" }
        """,
        hook=lambda payload: replace_value(payload, "background_tasks.type", {"subagent": "helper"}),
    ),
    Change(
        "option-removed",
        "`--system-prompt-snapshot` is called `--prompt-snapshot`.",
        ["resume"],
        """
        [options.own]
        table = { "--prompt-snapshot" = "off" }
        """,
        arguments=lambda arguments: [
            "--system-prompt-snapshot" if word == "--prompt-snapshot" else word for word in arguments
        ],
        help=lambda shown: shown.replace("--system-prompt-snapshot", "--prompt-snapshot       "),
        unknown_options=("--system-prompt-snapshot",),
    ),
    Change(
        "call-variable",
        "The variable with the limit for calls of tools has another name.",
        ["long-call"],
        """
        [environment.call_ms]
        texts = ["CLAUDE_CODE_LONG_CALL_MS"]
        """,
        environment=_call_variable,
    ),
    Change(
        "state-words",
        "The state file has other words, and calls `status` `phase`.",
        ["start"],
        """
        [renamed.state]
        table = { phase = "status" }
        [state.statuses]
        table = { ready = "idle", working = "busy", asking = "blocked" }
        """,
        state=_state_words,
    ),
    Change(
        "nested-key",
        "The transcript calls the tokens of a prompt `fresh_tokens`, deep in a line.",
        ["usage"],
        """
        [renamed.transcript]
        table = { "message.usage.fresh_tokens" = "input_tokens" }
        """,
        lines=lambda value: [rename_key(value, "message.usage.input_tokens", "fresh_tokens")],
    ),
)
CHANGES: Mapping[str, Change] = {change.name: change for change in _ALL}
