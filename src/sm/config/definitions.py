"""An agent type in a file of its own: NAME.md, settings in YAML between two lines `---`, and its prompt below."""

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from sm.config.fields import Model, Text
from sm.config.loading import Document, sentence, yaml_mistake
from sm.config.model import AgentConfig
from sm.errors import ConfigError

MAX_BYTES = 64 * 1024
_SETTINGS_MAX = 8 * 1024  # YAML is read at some 100 kB a second, and agents can write such files
_PROVIDER = "claude"
# Agents write what these read: they must not try again at each character of it (`++` gives nothing back).
_DESCRIPTION = re.compile(r"^(description:[ \t]++)(?![\"'|>])(.*\S)[ \t]*+$", re.MULTILINE)
_NAME = re.compile(r"(?:[^,(]++|\([^)]*+\)?+)++")
_MISTAKES_MAX = 20
_RULES = ("auto_allow", "auto_deny", "autoAllow", "autoDeny")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a file defines, and sentences for the person who wrote it."""

    agent: AgentConfig
    warnings: tuple[str, ...] = ()


def _names(value: object) -> object:
    """A list, or one text with commas, as claude's own files have it; a comma in brackets divides nothing."""
    if isinstance(value, str):
        return tuple(part.strip() for part in _NAME.findall(value) if part.strip())
    return value


def _rule(value: str) -> str:
    if not re.fullmatch(r"\*|[A-Za-z][A-Za-z0-9_*-]{0,99}(\([^()\0\ud800-\udfff]{0,500}\))?", value):
        raise ValueError("is no name of a tool, such as Read or Bash")
    return value


def _provider(value: str) -> str:
    if value == "command":
        raise ValueError("an agent type that is a program is configured under `commands:` in config.yaml")
    if value != _PROVIDER:
        raise ValueError(f"unknown provider {value[:40]!r}: leave it out, or say {_PROVIDER}")
    return value


Names = Annotated[tuple[Annotated[str, AfterValidator(_rule)], ...], BeforeValidator(_names)]


class _Settings(BaseModel):
    """Every other key is left alone: claude's own files have more."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    name: Text | None = None
    description: Text | None = None
    model: Model | None = None
    tools: Names | None = None
    disallowedTools: Names = ()  # noqa: N815  claude's own spelling
    permissionMode: object = None  # noqa: N815
    auto_allow: object = None
    auto_deny: object = None
    autoAllow: object = None  # noqa: N815
    autoDeny: object = None  # noqa: N815
    provider: Annotated[str, AfterValidator(_provider)] = _PROVIDER
    spawnable: bool = False


def settings_length(content: bytes) -> int:
    """How many characters of YAML `read_definition` would read."""
    try:
        return len(_parts(content)[0])
    except ConfigError:
        return 0


def read_definition(content: bytes, name: str) -> Definition:
    """The definition in NAME.md.

    The file's name is the agent type's; `name` in it may say the same. Raises ConfigError with `LINE:COLUMN: key:
    what is wrong` for every mistake.
    """
    settings_text, prompt = _parts(content)
    document = _document(settings_text)
    data = {} if document.data is None else document.data
    settings = None
    try:
        settings = _Settings.model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            document.mistake(detail["loc"], sentence(detail))
    if settings is None or document.mistakes:
        mistakes = sorted(document.mistakes, key=lambda each: (each.line, each.column))
        lines = [f"{each.line}:{each.column}: {each.what}" for each in mistakes[:_MISTAKES_MAX]]
        if len(mistakes) > _MISTAKES_MAX:
            lines.append(f"1:1: and {len(mistakes) - _MISTAKES_MAX:,} more mistakes")
        raise ConfigError("\n".join(lines))
    return _defined(settings, prompt, name)


def _document(text: str) -> Document:
    """The settings as YAML. Raises ConfigError.

    A description may be any line of text, as with claude, which has itself written files in which it is not quoted:
    `description: Use it so: ...` (read in the program: it quotes such lines and tries again).
    """
    try:
        return Document(text)
    except yaml.YAMLError as error:
        quoted = _DESCRIPTION.sub(lambda found: f"{found[1]}{json.dumps(found[2], ensure_ascii=False)}", text)
        try:
            if quoted != text:
                return Document(quoted)
        except yaml.YAMLError:
            pass
        raise ConfigError(yaml_mistake(error, text)) from None


def _parts(content: bytes) -> tuple[str, str]:
    """The settings, on the lines that they have in the file, and the prompt. Raises ConfigError."""
    if len(content) > MAX_BYTES:
        raise ConfigError(f"1:1: is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{line}:1: is not UTF-8 text") from None
    if "\0" in text:
        raise ConfigError(f"{text.count(chr(10), 0, text.index(chr(0))) + 1}:1: holds a NUL character")
    first, *rest = text.replace("\r\n", "\n").split("\n")
    if first.rstrip() != "---":
        raise ConfigError("1:1: it does not begin with settings between two lines of three dashes (---)")
    end = next((index for index, line in enumerate(rest) if line.rstrip() == "---"), None)
    if end is None:
        raise ConfigError("1:1: the settings have no end: a line of three dashes (---)")
    settings = "\n".join(["", *rest[:end]])
    if len(settings) > _SETTINGS_MAX:
        raise ConfigError(f"1:1: the settings are longer than {_SETTINGS_MAX:,} characters")
    return settings, "\n".join(rest[end + 1 :]).strip()


def _defined(settings: _Settings, prompt: str, name: str) -> Definition:
    warnings = []
    if settings.name is not None and settings.name != name:
        warnings.append(f"its `name` is {settings.name[:80]!r}; the name of the file counts")
    if settings.permissionMode is not None:
        warnings.append("`permissionMode` has no effect")
    # Agents can write such files, and would give themselves what they have to ask for.
    warnings += [
        f"`{key}` has no effect in a file: rules stand in config.yaml, under claude.agent_configs"
        for key in _RULES
        if getattr(settings, key) is not None
    ]
    tools, left_out = _tools(settings.tools)
    if left_out:
        warnings.append(f"`tools`: {', '.join(left_out)} is left out: a tool is given whole or not at all")
    more: dict[str, Any] = {}
    if settings.disallowedTools:
        more["args"] = ("--disallowedTools", ",".join(settings.disallowedTools))
    agent = AgentConfig(
        model=None if settings.model == "inherit" else settings.model,
        description=settings.description,
        prompt=prompt or None,
        tools=tools,
        spawnable=settings.spawnable,
        **more,
    )
    return Definition(agent, tuple(warnings))


def _tools(names: tuple[str, ...] | None) -> tuple[tuple[str, ...] | None, list[str]]:
    """The built-in tools that are named, and what was left out. None: all of them.

    `Bash(git *)` cannot be given so, and to give all of Bash would be more than was asked for. The tools of MCP
    servers come with the servers that the session is given.
    """
    if names is None or names == ("*",):
        return None, []
    left_out = [name for name in names if re.search(r"[(*]", name) and not name.startswith("mcp__")]
    return tuple(n for n in names if n not in left_out and not n.startswith("mcp__")), left_out
