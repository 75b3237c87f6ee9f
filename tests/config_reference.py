"""The reference of config.yaml in docs/reference/configuration.md: `python -m tests.config_reference` writes it."""

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml
from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sm.capabilities.budgets.settings import BudgetText
from sm.capabilities.completion.settings import CompletionPatterns
from sm.capabilities.worktrees.settings import BranchPattern, RepositoryPaths, ShellCommands, TreePlace
from sm.config import fields, sandbox, telegram, web
from sm.config.example import descriptions
from sm.config.model import Config
from sm.core.observation import Source
from sm.core.states import TrustLevel

DOCUMENT = Path("docs/reference/configuration.md")
HEAD = """# Configuration

<!-- written by: python -m tests.config_reference -->

Every key of `config.yaml`. `sm` reads `$SM_HOME/config.yaml` or, without `SM_HOME`, `$XDG_CONFIG_HOME/sm/config.yaml`
(`~/.config/sm/config.yaml`). The daemon applies a change within two seconds. It ignores a file with mistakes, and `sm
status` says so. `sm config --check` finds mistakes, and names the changes that need `sm daemon restart`.
[config.yaml.example](../../config.yaml.example) has the same keys as one file.

A key that is not in your file keeps its default. Sections merge key by key, also those with names, such as agent types:
your entry overrides the keys that it contains, and `NAME: null` removes a shipped entry. A list replaces the default
list.
"""
_TYPES = (
    (fields.Text, "text"),
    (fields.Variable, "variable"),
    (fields.AgentType, "agent type"),
    (fields.Name, "name"),
    (fields.Model, "model"),
    (fields.Tool, "tool"),
    (fields.AllowRules, "list of rules"),
    (fields.DenyRules, "list of rules"),
    (CompletionPatterns, "list of patterns"),
    (fields.FileName, "plain file name"),
    (fields.AbsolutePath, "absolute path"),
    (fields.Url, "URL"),
    (BudgetText, "budget"),
    (TreePlace, "path with `{repo}` and `{name}`"),
    (BranchPattern, "branch with `{name}`"),
    (RepositoryPaths, "list of paths in a repository"),
    (ShellCommands, "list of shell commands"),
    (fields.Program, "list: a program and its arguments"),
    (fields.ProgramOrName, "program, or a list with its arguments"),
    (fields.Trust, " or ".join(f"`{level}`" for level in TrustLevel)),
    (fields.EvidenceSource, ", ".join(f"`{source}`" for source in Source)),
    (fields.FriendlyNamePattern, "pattern with `{friendly_name}`"),
    (fields.ShortIdPattern, "pattern with `{short_id}`"),
    (fields.Names, "`all`, or a list of names"),
    (fields.Skills, "`all`, or a list of names"),
    (telegram.UserId, "user id"),
    (telegram.GroupId, "negative group id"),
    (telegram.ApiUrl, "URL"),
    (fields.TimeOfDay, "`HH:MM`"),
    (telegram.QuietHours, "`HH:MM-HH:MM`"),
    (web.Host, "host name"),
    (web.IpAddress, "IP address"),
    (sandbox.Engine, "`unix:///PATH`"),
    (sandbox.Image, "image name"),
    (sandbox.Memory, "size"),
    (sandbox.Size, "size"),
    (sandbox.PassedVariable, "variable"),
    (sandbox.Mounts, "list of `/PATH`, `/PATH:ro`, `/PATH:rw`"),
    (sandbox.ProtectedPath, "relative path"),
)
_UNITS = {
    "reap_completed_after": "seconds",
    "keep_days": "days",
    "unseen_days": "days",
    "unused_hours": "hours",
    "unused_max_mb": "megabytes",
    "max_mb": "megabytes",
    "copy_max_mb": "megabytes",
    "daily_usd": "US dollars",
    "soft_percent": "per cent",
    "hard_percent": "per cent",
    "grace_s": "seconds",
    "history_limit": "lines",
    "width": "columns",
    "height": "lines",
    "timeout_s": "seconds",
    "setup_timeout_s": "seconds",
    "teardown_timeout_s": "seconds",
    "spawn_interval_s": "seconds",
    "stagger_s": "seconds",
    "max": "retries",
    "retries": "failed checks",
    "backoff_s": "seconds",
    "snapshot_interval": "seconds",
    "completion_quiet_s": "seconds",
    "idle_timeout": "seconds",
    "remind_after_s": "seconds",
    "idle_stop_s": "seconds",
    "cpus": "processors",
    "pids": "processes and threads",
    "nofile": "files",
    "hours": "hours",
    "port": "",
    "last": "terminals",
    "restart_max": "restarts",
    "after": "seconds",
    "within_s": "seconds",
    "tool_after": "seconds",
    "failures": "calls",
    "limit": "unit in the description",
    "max_children": "sessions",
    "max_depth": "generations",
    "max_per_workspace": "processes",
    "messages_per_minute": "messages per minute",
    "operator_messages_per_minute": "messages per minute",
    "reports_per_minute": "reports per minute",
    **dict.fromkeys(("input", "output", "cache_read", "cache_write"), "US dollars per million tokens"),
}
"""The unit of every key that is a number. A number without an entry raises KeyError."""


def document() -> str:
    """The whole of docs/reference/configuration.md."""
    return "\n".join(
        [
            HEAD,
            *_section(Config, "", None),
            "",
        ]
    )


def _section(model: type[BaseModel], path: str, about: str | None) -> Iterator[str]:
    """A table of the keys, then the sections below it."""
    if path:
        yield f"\n## {path}\n"
    said, own = _sentence(about), _sentence(model.__doc__)
    if said and not own.startswith(said):
        yield f"{said}\n"
    if own and path:
        yield f"{own}\n"
    hints = get_type_hints(model, include_extras=True)
    meanings = descriptions(model)
    nested = {name: found for name in model.model_fields if (found := _below(hints[name]))}
    plain = {
        name: field for name, field in model.model_fields.items() if name not in nested or nested[name][1]
    }
    if plain:
        yield "| key | type | default | meaning |\n|---|---|---|---|"
        for name, field in plain.items():
            cells = (
                f"`{name}`",
                _type(hints[name], name) + _range(field.metadata),
                _default(field),
                _sentence(meanings.get(name)),
            )
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    for name, (inner, suffix) in nested.items():
        field = model.model_fields[name]
        yield from _section(
            inner, f"{path}.{name}{suffix}".lstrip("."), None if suffix else meanings.get(name)
        )
        if isinstance(field.default, dict) and field.default:
            yield f"\nShipped entries:\n\n```yaml\n{_yaml(field.default)}```"


def _below(hint: Any) -> tuple[type[BaseModel], str] | None:
    """The section that a key holds, and the end of its path: empty, `.NAME` for named sections, `[]` for a list."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return hint, ""
    arguments = get_args(hint)
    if get_origin(hint) is Annotated:
        return _below(arguments[0])
    suffixes = {dict: ".NAME", tuple: "[]"}
    for argument in arguments:
        origin = get_origin(hint)
        if origin in suffixes and isinstance(argument, type) and issubclass(argument, BaseModel):
            return argument, suffixes[origin]
    return None


def _type(hint: Any, name: str) -> str:
    """The type in words. Raises AssertionError for a type without words."""
    for known, words in _TYPES:
        if hint == known:
            return words
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        limits = [limit for part in arguments[1:] for limit in getattr(part, "metadata", ())]
        return _type(arguments[0], name) + _range(limits)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part, name) for part in arguments)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {_several(_type(arguments[0], name))}"
    if origin is dict:
        key, value = (_type(part, name) for part in arguments)
        return f"{value}s by {key}" if value in ("text", "section") else f"{value} by {key}"
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return "section"
    plain = {bool: "`true` or `false`", types.NoneType: "`null`"}
    if hint in (int, float):
        unit = _UNITS[name]
        return f"{'whole number' if hint is int else 'number'}{unit and f' of {unit}'}"
    assert hint in plain, f"no words for the type of {name}: {hint}"
    return plain[hint]


def _several(words: str) -> str:
    return f"{words}s" if re.fullmatch(r"[\w ]+", words) else words


def _range(limits: Sequence[object]) -> str:
    least = next((limit.ge for limit in limits if isinstance(limit, Ge)), None)
    most = next((limit.le for limit in limits if isinstance(limit, Le)), None)
    if least is None and most is None:
        return ""
    return f", {least} to {most}" if most is not None else f", at least {least}"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, dict) and value:
        return ", ".join(f"`{name}`" for name in value)
    return f"`{_yaml(value, flow=True)}`"


def _yaml(value: object, *, flow: bool = False) -> str:
    # A list, because PyYAML ends a lone scalar with a line "...".
    plain = _data(value)
    if flow:
        return yaml.safe_dump([plain], default_flow_style=True, width=1000).strip()[1:-1]
    return yaml.safe_dump(plain, sort_keys=False, width=100)


def _data(value: object) -> object:
    match value:
        case BaseModel():
            given = {name: getattr(value, name) for name in type(value).model_fields}
            return {
                name: _data(item)
                for name, item in given.items()
                if item != type(value).model_fields[name].default
            }
        case Mapping():
            return {str(key): _data(item) for key, item in value.items()}
        case tuple():
            return [_data(item) for item in value]
        case TrustLevel():
            return value.value
        case _:
            return value


def _sentence(text: str | None) -> str:
    """A description on one line, with its Markdown characters escaped outside of code."""
    parts = re.split(r"(`[^`]*`)", " ".join((text or "").split()))
    return "".join(
        part if index % 2 else re.sub(r"([\\`*<>\[\]])", r"\\\1", part) for index, part in enumerate(parts)
    )


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
