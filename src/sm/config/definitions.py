"""Reads agent types from files NAME.md: YAML settings between two lines `---`, then the prompt."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import yaml
from pydantic import AfterValidator, BeforeValidator, ConfigDict, ValidationInfo

from sm.config.agents import AgentConfig
from sm.config.capability_keys import keys_of_capabilities
from sm.config.fields import Lifecycle, Model, Text
from sm.config.loading import Document, yaml_mistake
from sm.core.dataclass import dataclass
from sm.errors import ConfigError
from sm.section import Section

DEFINITION_MAX_BYTES = 64 * 1024
_SETTINGS_MAX = 8 * 1024  # YAML is parsed at about 100 kB a second, and agents can write these files
# Agents write the input, so the patterns must not backtrack (`++` is possessive).
_DESCRIPTION = re.compile(r"^(description:[ \t]++)(?![\"'|>])(.*\S)[ \t]*+$", re.MULTILINE)
_NAME = re.compile(r"(?:[^,(]++|\([^)]*+\)?+)++")
_RULES = ("auto_allow", "auto_deny", "autoAllow", "autoDeny")


@dataclass(frozen=True, slots=True)
class Definition:
    """The content of a definition file, before the provider applies it."""

    agent: AgentConfig
    """The settings with the same meaning for every provider."""
    provider: str | None = None
    """None if it is not in the file."""
    tools: tuple[str, ...] | None = None
    """The only tools of the agent, as named in the file, or None for all tools."""
    disallowed_tools: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences for the author of the file."""
    other_keys: tuple[str, ...] = ()
    """The keys that `sm` does not read. The agent CLI may know them."""


def _names(value: object) -> object:
    """Accepts a list, or a text with commas. A comma in parentheses does not separate names."""
    if isinstance(value, str):
        return tuple(part.strip() for part in _NAME.findall(value) if part.strip())
    return value


def _tool(value: str) -> str:
    if not re.fullmatch(r"\*|[A-Za-z][A-Za-z0-9_*-]{0,99}(\([^()\0\ud800-\udfff]{0,500}\))?", value):
        raise ValueError("is not a tool name, such as Read or Bash")
    return value


def _provider(value: str, info: ValidationInfo) -> str:
    """`info.context`: the providers that support definition files."""
    if value == "command":
        raise ValueError("is not allowed in a file: configure programs under `commands:` in config.yaml")
    assert info.context is not None
    if value not in info.context:
        raise ValueError(f"unknown provider {value[:40]!r}: omit the key, or use {' or '.join(info.context)}")
    return value


Names = Annotated[tuple[Annotated[str, AfterValidator(_tool)], ...], BeforeValidator(_names)]


if TYPE_CHECKING:

    class _AddedKeys(Section):
        """The keys that capabilities add."""

else:
    _AddedKeys = keys_of_capabilities("DEFINITION")


class _Settings(_AddedKeys):
    """The keys that `sm` reads. Other keys belong to the agent CLIs and are ignored."""

    model_config = ConfigDict(extra="ignore")

    name: Text | None = None
    description: Text | None = None
    model: Model | None = None
    tools: Names | None = None
    disallowedTools: Names = ()  # noqa: N815  the spelling in the files
    permissionMode: object = None  # noqa: N815
    auto_allow: object = None
    auto_deny: object = None
    autoAllow: object = None  # noqa: N815
    autoDeny: object = None  # noqa: N815
    provider: Annotated[str, AfterValidator(_provider)] | None = None
    spawnable: bool = False
    lifecycle: Lifecycle | None = None


DEFINITION_KEYS = tuple(_Settings.model_fields)
"""The keys of a definition file that `sm` reads."""


def settings_length(content: bytes) -> int:
    """The number of YAML characters that `read_definition` would parse."""
    try:
        return len(_parts(content)[0])
    except ConfigError:
        return 0


def read_definition(content: bytes, name: str, providers: Sequence[str]) -> Definition:
    """The definition in NAME.md, for one of these providers. The file name decides the name of the agent type.

    Raises ConfigError with one line `LINE:COLUMN: key: mistake` for every mistake.
    """
    settings_text, prompt = _parts(content)
    document = _document(settings_text)
    settings = document.validate(_Settings, tuple(providers))
    if settings is None or document.mistakes:
        shown, more = document.mistakes, document.more_mistakes
        raise ConfigError("\n".join((*shown, f"1:1: and {more:,} more mistakes") if more else shown))
    other_keys = tuple(key for key in document.data or () if key not in DEFINITION_KEYS)
    return replace(_defined(settings, prompt, name), other_keys=other_keys)


def _document(text: str) -> Document:
    """Parse the settings. Raises ConfigError.

    Agent CLIs write files with unquoted descriptions that are invalid YAML, such as `description: Use it so: ...`, and
    quote them when they read them. This function does the same.
    """
    try:
        return Document(text)
    except yaml.YAMLError as error:
        quoted = _DESCRIPTION.sub(lambda match: f"{match[1]}{json.dumps(match[2], ensure_ascii=False)}", text)
        try:
            if quoted != text:
                return Document(quoted)
        except yaml.YAMLError:
            pass
        raise ConfigError(yaml_mistake(error, text)) from None


def _parts(content: bytes) -> tuple[str, str]:
    """The settings, at their line numbers in the file, and the prompt. Raises ConfigError."""
    if len(content) > DEFINITION_MAX_BYTES:
        raise ConfigError(f"1:1: the file is larger than {DEFINITION_MAX_BYTES // 1024} KiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{line}:1: invalid UTF-8") from None
    if "\0" in text:
        raise ConfigError(f"{text.count(chr(10), 0, text.index(chr(0))) + 1}:1: NUL character")
    first, *rest = text.replace("\r\n", "\n").split("\n")
    if first.rstrip() != "---":
        raise ConfigError("1:1: the file must begin with settings between two lines of three dashes (---)")
    end = next((index for index, line in enumerate(rest) if line.rstrip() == "---"), None)
    if end is None:
        raise ConfigError("1:1: missing line of three dashes (---) after the settings")
    settings = "\n".join(["", *rest[:end]])
    if len(settings) > _SETTINGS_MAX:
        raise ConfigError(f"1:1: the settings are longer than {_SETTINGS_MAX:,} characters")
    return settings, "\n".join(rest[end + 1 :]).strip()


def _defined(settings: _Settings, prompt: str, name: str) -> Definition:
    warnings = []
    if settings.name is not None and settings.name != name:
        warnings.append(f"`name` is {settings.name[:80]!r}, but the file name decides the agent type")
    if settings.permissionMode is not None:
        warnings.append("`permissionMode` has no effect")
    # Agents can write these files and must not grant permissions to themselves.
    warnings += [
        f"`{key}` has no effect in a file: set rules in config.yaml, under claude.agent_configs"
        for key in _RULES
        if getattr(settings, key) is not None
    ]
    agent = AgentConfig(
        model=None if settings.model == "inherit" else settings.model,
        description=settings.description,
        prompt=prompt or None,
        spawnable=settings.spawnable,
        lifecycle=settings.lifecycle,
        **{key: getattr(settings, key) for key in _AddedKeys.model_fields},
    )
    return Definition(agent, settings.provider, settings.tools, settings.disallowedTools, tuple(warnings))
