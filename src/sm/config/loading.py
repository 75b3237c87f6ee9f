"""Reads config.yaml with a size limit, and reports all mistakes at once with their positions."""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import date
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sm.config.model import SET_BY_SM, Config
from sm.config.telegram import read_token
from sm.core.dataclass import dataclass
from sm.errors import ConfigError
from sm.linux.files import Content, NotRegular, read_file
from sm.policy.written_rules import WrittenRule

MAX_BYTES = 256 * 1024
"""PyYAML takes about a second for 100 KiB."""
MISTAKES_MAX = 20
"""More mistakes in a file are only counted."""
_MAX_DEPTH = 32
_HINT = "show every key with its default: sm config --example"


class Stamp(NamedTuple):
    """Identifies the content of a file."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    config: Config
    warnings: tuple[str, ...] = ()
    telegram_token: str | None = field(default=None, repr=False)
    """The content of `telegram.token_file`."""
    files: Mapping[str, Stamp | None] = field(default_factory=dict, compare=False)
    """The paths of the files that were read, with their stamps from before. None means that there is no file."""
    rules: tuple[WrittenRule, ...] = ()
    """The rules of rules.yaml, oldest first."""


def stamp_of(path: str) -> Stamp | None:
    """Look at the file at `path`. Returns None if there is no file, or if it cannot be looked at."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


_Path = tuple[str | int, ...]
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class _Mistake:
    line: int
    column: int
    what: str


class _Loader(yaml.SafeLoader):
    """YAML 1.1 without aliases (a few expand to gigabytes) and with limited nesting."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise self._refusal("aliases (*name) are not allowed")
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._refusal(f"nested more than {_MAX_DEPTH} deep")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _refusal(self, problem: str) -> yaml.MarkedYAMLError:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # missing in the stubs
        return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


class Document:
    """A YAML text as plain data, with the position of every key and value."""

    def __init__(self, text: str) -> None:
        """Raises yaml.YAMLError."""
        self._mistakes: list[_Mistake] = []
        self._unnamed = 0
        """Mistakes that are only counted."""
        self._keys: dict[_Path, yaml.Mark] = {}
        self._values: dict[_Path, yaml.Mark] = {}
        self._loader = _Loader(text)
        try:
            node = self._loader.get_single_node()
            self.data: Any = None if node is None else self._build(node, ())
        finally:
            self._loader.dispose()

    def _build(self, node: yaml.Node, path: _Path) -> Any:
        self._values[path] = node.start_mark
        if isinstance(node, yaml.SequenceNode):
            return tuple(self._build(item, (*path, index)) for index, item in enumerate(node.value))
        if not isinstance(node, yaml.MappingNode):
            return self._scalar(node)
        built: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                shown = repr(key.value) if isinstance(key, yaml.ScalarNode) else "this key"
                self._mistake(key.start_mark, path, f"{shown} is not text: put the key in quotes")
                continue
            below = (*path, key.value)
            if key.value in built:
                first = self._keys[below].line + 1
                self._mistake(key.start_mark, below, f"duplicate key, first given on line {first}")
                continue
            self._keys[below] = key.start_mark
            built[key.value] = self._build(value, below)
        return built

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            return self._loader.construct_object(node)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            # An invalid date (2026-02-31), or a wrong tag (!!int x).
            raise yaml.MarkedYAMLError(
                problem="invalid value; put text in quotes", problem_mark=node.start_mark
            ) from None

    def _mistake(self, mark: yaml.Mark, path: _Path, what: str) -> None:
        self._mistakes.append(_Mistake(mark.line + 1, mark.column + 1, f"{_dotted(path)}{what}"))

    @property
    def mistakes(self) -> list[str]:
        """The first MISTAKES_MAX lines `LINE:COLUMN: mistake`, in order of position."""
        ordered = sorted(self._mistakes, key=lambda mistake: (mistake.line, mistake.column))
        return [f"{mistake.line}:{mistake.column}: {mistake.what}" for mistake in ordered[:MISTAKES_MAX]]

    @property
    def more_mistakes(self) -> int:
        """The number of mistakes that `mistakes` omits."""
        return max(0, len(self._mistakes) - MISTAKES_MAX) + self._unnamed

    def line_of(self, path: _Path) -> int:
        """The line of the value at `path`, from 1."""
        return self._values[path].line + 1

    def validate(self, model: type[_Model], context: object = None) -> _Model | None:
        """The data as this model; None after recording a mistake for every error."""
        try:
            return model.model_validate(self.data, context=context)
        except ValidationError as error:
            details = sorted(error.errors(include_url=False), key=self._position)
            # Only the mistakes that are shown: a suggestion for an unknown key is slow.
            for detail in details[:MISTAKES_MAX]:
                path, in_key = _place(detail)
                self.mistake(path, sentence(detail), in_key=in_key)
            self._unnamed += len(details[MISTAKES_MAX:])
            return None

    def _position(self, detail: ErrorDetails) -> tuple[int, int]:
        path, in_key = _place(detail)
        mark = self._mark(path, in_key=in_key)
        return mark.line, mark.column

    def mistake(self, path: _Path, what: str, *, in_key: bool = False) -> None:
        """Record a mistake at `path`, or at its nearest parent in the file."""
        self._mistake(self._mark(path, in_key=in_key), path, what)

    def _mark(self, path: _Path, *, in_key: bool) -> yaml.Mark:
        at = path
        while at and at not in self._values:
            at = at[:-1]
        return self._keys[at] if at in self._keys and (in_key or at != path) else self._values[at]


def _place(detail: ErrorDetails) -> tuple[_Path, bool]:
    """The path of an error, and True if its key is wrong, not its value."""
    of_key = detail["loc"][-1:] == ("[key]",)
    return detail["loc"][:-1] if of_key else detail["loc"], of_key or detail["type"] == "extra_forbidden"


def _dotted(path: _Path) -> str:
    text = ""
    for part in path:
        word = part if isinstance(part, int) or part.isprintable() else repr(part)
        text += f"[{word}]" if isinstance(part, int) else f".{word}" if text else f"{word}"
    return f"{text}: " if text else ""


def load_config(path: str) -> LoadedConfig:
    """Read config.yaml at `path`, without rules.yaml. A missing or empty file means the defaults.

    No other object shares the sections of the result. Raises ConfigError with one line
    `PATH:LINE:COLUMN: key: mistake` for every mistake, in order.
    """
    read, warnings = _read(path)
    if read is None:
        return _with_files_beside(path, LoadedConfig(Config().model_copy(deep=True), files={path: None}))
    content = read.data
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise ConfigError(f"{path}:{line}:{column}: invalid UTF-8", "save the file as UTF-8") from None
    try:
        document = Document(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:{yaml_mistake(error, text)}", _HINT) from None
    for key_path, what in _duplicates(document.data):
        document.mistake(key_path, what, in_key=True)
    document.data = _merged(document.data, Config())
    config = document.validate(Config)
    files: dict[str, Stamp | None] = {path: _stamp(read.status)}
    for name, section in () if config is None else config.provider_sections().items():
        for key, named, read_named in section.files():
            files[named] = stamp_of(named)
            try:
                read_named(named)
            except ConfigError as error:
                document.mistake((name, key), error.message)
    token = None
    if config is not None and config.telegram.token_file is not None:
        try:
            token = read_token(config.telegram.token_file)
        except ConfigError as error:
            document.mistake(("telegram", "token_file"), error.message)
    if config is None or document.mistakes:
        lines = [f"{path}:{mistake}" for mistake in document.mistakes]
        if more := document.more_mistakes:
            lines.append(f"and {more} more {'mistake' if more == 1 else 'mistakes'}")
        raise ConfigError("\n".join(lines), _HINT)
    # pydantic gives the same default sections to every configuration.
    own = config.model_copy(deep=True)
    return _with_files_beside(path, LoadedConfig(own, (*warnings, *_overridden(config)), token, files))


def _with_files_beside(path: str, loaded: LoadedConfig) -> LoadedConfig:
    """Find the files of providers that may be beside the configuration at `path`."""
    config, files = loaded.config, dict(loaded.files)
    for name, section in config.provider_sections().items():
        for key, file in section.beside.items():
            used = getattr(section, key) or f"{os.path.dirname(path)}/{file}"
            files[used] = stamp_of(used)
            if getattr(section, key) is None and files[used] is not None:
                section = section.model_copy(update={key: used})
                config = config.model_copy(update={name: section})
    return replace(loaded, config=config, files=files)


def _bounded(path: str, limit_bytes: int) -> Content:
    """Read a file. Raises FileNotFoundError, and ConfigError for all other failures."""
    try:
        content = read_file(path, limit_bytes, follow=True)
    except FileNotFoundError:
        raise
    except NotRegular:
        raise ConfigError(f"{path} is not a regular file") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    if content.cut:
        raise ConfigError(f"{path} is larger than {limit_bytes // 1024} KiB")
    return content


def _read(path: str) -> tuple[Content | None, tuple[str, ...]]:
    try:
        content = _bounded(path, MAX_BYTES)
    except FileNotFoundError:
        if os.path.islink(path):
            raise ConfigError(f"{path} is a link to a missing file") from None
        return None, ()
    status = content.status
    # The user's own group (the default of Debian and Fedora) has no other members.
    group = status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid()
    if status.st_mode & stat.S_IWOTH or group or status.st_uid not in (os.geteuid(), 0):
        warning = f"{path} can be changed by other users; chown it to yourself and chmod go-w it"
        return content, (warning,)
    return content, ()


def yaml_mistake(error: yaml.YAMLError, text: str) -> str:
    """The mistake as `LINE:COLUMN: message`."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        words = ": ".join(filter(None, (error.context, error.problem)))
        return f"{mark.line + 1}:{mark.column + 1}: {words}"
    if isinstance(error, yaml.reader.ReaderError):
        line, column = (
            text.count("\n", 0, error.position) + 1,
            error.position - text.rfind("\n", 0, error.position),
        )
        return f"{line}:{column}: the character U+{ord(text[error.position]):04X} is not allowed"
    return f"1:1: {error}"


def _merged(data: Any, defaults: BaseModel) -> Any:
    """The data with the default entries of every map whose defaults are not empty.

    An entry of the data overrides the keys that it contains, and null removes a default entry. Upper and lower case of
    its name do not matter. Other values do not change.
    """
    if not isinstance(data, dict):
        return data
    merged = dict(data)
    for name in data.keys() & type(defaults).model_fields.keys():
        default = getattr(defaults, name)
        if isinstance(default, BaseModel):
            merged[name] = _merged(data[name], default)
        elif isinstance(default, dict) and default and isinstance(data[name] or {}, dict):
            merged[name] = _merged_map(data[name] or {}, default)
    return merged


def _merged_map(entries: dict[str, Any], defaults: dict[str, BaseModel]) -> dict[str, Any]:
    given = {name.lower(): name for name in entries}
    merged: dict[str, Any] = {}
    for name, default in defaults.items():
        own = given.get(name.lower())
        if own is None:
            merged[name] = default.model_dump(exclude_unset=True)
        elif isinstance(entries[own], dict):
            merged[own] = default.model_dump(exclude_unset=True) | entries[own]
        elif entries[own] is not None:
            merged[own] = entries[own]
    shipped = {name.lower() for name in defaults}
    return merged | {name: entry for name, entry in entries.items() if name.lower() not in shipped}


def read_text(path: str, limit_bytes: int) -> str:
    """Read a text that a key names. Raises ConfigError."""
    try:
        content = _bounded(path, limit_bytes).data
    except FileNotFoundError as error:
        raise ConfigError(f"cannot read {path}: {str(error.strerror).lower()}") from None
    if b"\0" in content:
        raise ConfigError(f"{path} contains a NUL character")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} contains invalid UTF-8") from None


def _duplicates(data: Any) -> Iterator[tuple[_Path, str]]:
    """Duplicate agent types, also names that differ only in case: names of sessions are in lower case."""
    seen: dict[str, tuple[str, str]] = {}
    providers = Config().provider_sections()
    for section in (("commands",), *((name, "agent_configs") for name in providers)):
        here = data
        for part in section:
            here = here.get(part) if isinstance(here, dict) else None
        dotted = ".".join(section)
        for name in here if isinstance(here, dict) else ():
            where, twin = seen.setdefault(name.lower(), (dotted, name))
            if where != dotted:
                yield (*section, name), f"is also an agent type of `{where}`"
            elif twin != name:
                yield (*section, name), f"differs from `{twin}` only in case"


def _overridden(config: Config) -> Iterator[str]:
    environments = {f"commands.{name}": command.env for name, command in config.commands.items()}
    environments |= {name: section.env for name, section in config.provider_sections().items()}
    for where, environment in environments.items():
        for variable in sorted(SET_BY_SM & environment.keys()):
            yield f"`{where}.env.{variable}` has no effect: sm sets it itself"


def sentence(detail: ErrorDetails) -> str:
    """The message of a pydantic error, for a person who edits YAML."""
    value, context = detail["input"], detail.get("ctx", {})
    got = _shown(value)
    match detail["type"]:
        case "extra_forbidden":
            return f"unknown key{_nearest_key(detail['loc'])}"
        case "missing":
            return "is missing"
        case "value_error":
            return str(context["error"])
        case "literal_error":
            choices = re.findall(r"'([^']*)'", context["expected"])
            near = get_close_matches(value.lower(), choices, n=1) if isinstance(value, str) else []
            guess = f" (did you mean `{near[0]}`?)" if near else ""
            return f"must be one of {', '.join(choices)}, not {got}{guess}"
        case "string_type" | "is_instance_of" if isinstance(value, int | float | date):
            secret = "env" in detail["loc"]  # never show values of environment variables
            return (
                "must be text: put it in quotes" if secret else f"must be text, not {got}: put it in quotes"
            )
        case "string_type" | "is_instance_of":
            return f"must be text{', not null' if value is None else ''}"
        case "int_type" | "int_from_float" | "int_parsing_size":
            return f"must be a whole number, not {got}"
        case "greater_than_equal":
            return f"must be at least {_bound(context['ge'])}, not {got}"
        case "greater_than":
            return f"must be more than {_bound(context['gt'])}, not {got}"
        case "less_than_equal":
            return f"must be at most {_bound(context['le'])}, not {got}"
        case "float_type" | "finite_number":
            return f"must be a number, not {got}"
        case "bool_type":
            return f"must be true or false, not {got}"
        case "tuple_type":
            return "must be a list: [one, two]"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "must be a mapping of keys to values, `key: value`"
        case _:
            return detail["msg"]


def _bound(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool | date):
        return "null" if value is None else str(value).lower()
    try:
        shown = repr(value[:60] if isinstance(value, str) and len(value) > 60 else value)
    except ValueError:
        # Python cannot format integers of more than 4,300 digits, but YAML parses them: 0xfff..., 1:1:1:...
        number = "a number with too many digits"
        return number if isinstance(value, int) else f"something with {number}"
    return shown if len(shown) <= 60 else shown[:60] + "..."


def _nearest_key(path: _Path) -> str:
    """` (did you mean ...?)` for an unknown key: a similar key in the same section, or the same key elsewhere.

    Says so if the key is one of config.yaml, and another file has it.
    """
    *above, key = map(str, path)
    known = [dotted.split(".") for dotted in _all_keys(Config)]
    if [*above, key] in known:
        return " (it belongs in config.yaml)"
    for index in range(len(above)):
        if [*above[:index], "*"] in known:
            above[index] = "*"
    neighbours = {parts[len(above)] for parts in known if parts[: len(above)] == above and parts != above}
    lower = {name.lower(): name for name in sorted(neighbours - {"*"})}
    near = get_close_matches(key.lower(), lower, n=1)
    if near:
        return f" (did you mean `{lower[near[0]]}`?)"
    elsewhere = [".".join(parts) for parts in known if parts[-1] == key and "*" not in parts]
    return f" (did you mean `{elsewhere[0]}`?)" if elsewhere else ""


def _all_keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All dotted keys, with `*` for user-defined names."""
    for name, key in section.model_fields.items():
        yield prefix + name
        if isinstance(key.default, BaseModel):
            yield from _all_keys(type(key.default), f"{prefix}{name}.")
        elif (named := _sections_in(key.annotation)) is not None:
            yield f"{prefix}{name}.*"
            yield from _all_keys(named, f"{prefix}{name}.*.")


def _sections_in(annotation: Any) -> type[BaseModel] | None:
    """The type of the sections in a dict; None for other types."""
    inner = get_args(annotation)[-1:]
    return inner[0] if inner and isinstance(inner[0], type) and issubclass(inner[0], BaseModel) else None
