"""Reads and writes rules.yaml: the permission rules that `sm approve --always` has added to agent types.

Only the daemon writes the file, one rule in each line. It is read after config.yaml, whose `auto_deny` overrides it.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import replace

import yaml
from pydantic import RootModel

from sm.config.fields import AgentType, AllowRule
from sm.config.loading import Document, LoadedConfig, load_config, stamp_of, yaml_mistake
from sm.errors import ConfigError, IllegalState, LimitReached
from sm.linux.files import read_file, replace_private
from sm.policy.tool_rules import RULES_MAX
from sm.policy.written_rules import WrittenRule
from sm.section import Section

FILE_NAME = "rules.yaml"
HEADER = "# Written by sm (sm approve --always). Do not edit: sm config undo removes the newest line.\n"
_MAX_BYTES = 64 * 1024
_HINT = "repair the file by hand, or remove it: sm writes a new one"


class _Entry(Section):
    agent_type: AgentType
    allow: AllowRule
    sandboxed: bool = False


class _Entries(RootModel[tuple[_Entry, ...]]):
    pass


def rules_path(config: str) -> str:
    """The path of the file, from the path of config.yaml."""
    return f"{os.path.dirname(config)}/{FILE_NAME}"


def load(path: str) -> LoadedConfig:
    """Read the configuration at `path`, and the rules in rules.yaml beside it.

    As `load_config`. Raises ConfigError also for mistakes in rules.yaml.
    """
    mistakes: list[ConfigError] = []
    try:
        loaded = load_config(path)
    except ConfigError as error:
        mistakes.append(error)
    beside = rules_path(path)
    before = stamp_of(beside)
    try:
        rules, warnings = read_rules(beside)
    except ConfigError as error:
        mistakes.append(error)
    if mistakes:
        raise ConfigError("\n".join(error.message for error in mistakes), mistakes[0].hint)
    files = {**loaded.files, beside: before}
    return replace(loaded, rules=rules, files=files, warnings=(*loaded.warnings, *warnings))


def read_rules(path: str) -> tuple[tuple[WrittenRule, ...], tuple[str, ...]]:
    """The rules of the file, oldest first, and warnings. A missing file has no rules.

    Raises ConfigError with one line `PATH:LINE:COLUMN: mistake` for each mistake.
    """
    found = _read(path)
    if found is None:
        return (), ()
    text, status = found
    group = status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid()
    is_open = status.st_mode & stat.S_IWOTH or group or status.st_uid not in (os.geteuid(), 0)
    warning = f"{path} can be changed by other users; chown it to yourself and chmod go-w it"
    return parse_rules(text, path), (warning,) if is_open else ()


def parse_rules(text: str, path: str) -> tuple[WrittenRule, ...]:
    """The rules in the text of the file at `path`. Raises ConfigError as `read_rules`."""
    try:
        document = Document(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}:{yaml_mistake(error, text)}", _HINT) from None
    if document.data is None:
        document.data = ()
    entries = document.validate(_Entries)
    if entries is None or document.mistakes:
        lines = [f"{path}:{mistake}" for mistake in document.mistakes]
        if more := document.more_mistakes:
            lines.append(f"and {more} more {'mistake' if more == 1 else 'mistakes'}")
        raise ConfigError("\n".join(lines), _HINT)
    return tuple(
        WrittenRule(entry.agent_type, entry.allow, entry.sandboxed, document.line_of((index,)))
        for index, entry in enumerate(entries.root)
    )


def add_rule(path: str, rule: WrittenRule) -> None:
    """Write the rule as the last line of the file, unless it is there already.

    Raises ConfigError for a file with mistakes, IllegalState for one that was edited so that no line can be added, and
    LimitReached. The file does not change then.
    """
    text, rules = _current(path)
    if rule in rules:
        return
    if sum(known.agent_type == rule.agent_type for known in rules) >= RULES_MAX:
        raise LimitReached(
            f"agent type {rule.agent_type} already has {RULES_MAX} rules in {path}",
            "write one wider rule into config.yaml (sm config edit), and remove lines here",
        )
    end = "" if text.endswith("\n") else "\n"
    _replace(path, f"{text}{end}{rule.text}\n", (*rules, rule))


def remove_newest_rule(path: str, line: str) -> WrittenRule:
    """Remove the last line of the file, which must be `line`, and return its rule.

    Raises IllegalState if the last rule is another one or there is none, and errors as `add_rule`.
    """
    text, rules = _current(path)
    if not rules:
        raise IllegalState(f"there are no rules in {path}")
    if rules[-1].text != line:
        raise IllegalState(f"the newest rule is another one now: {rules[-1].text}", "sm config undo")
    lines = text.splitlines(keepends=True)
    del lines[rules[-1].line - 1]
    _replace(path, "".join(lines), rules[:-1])
    return rules[-1]


def _current(path: str) -> tuple[str, tuple[WrittenRule, ...]]:
    found = _read(path)
    text = HEADER if found is None else found[0]
    return text, parse_rules(text, path)


def _replace(path: str, text: str, rules: Sequence[WrittenRule]) -> None:
    """Write the text, if sm reads exactly these rules in it."""
    content = text.encode()
    if len(content) > _MAX_BYTES:
        raise LimitReached(f"{path} would be larger than {_MAX_BYTES // 1024} KiB")
    try:
        is_same = parse_rules(text, path) == tuple(rules)
    except ConfigError:
        is_same = False
    if not is_same:
        raise IllegalState(
            f"{path} was edited: sm cannot change one line of it",
            "put each rule on one line, as sm writes it",
        )
    replace_private(path, content)


def _read(path: str) -> tuple[str, os.stat_result] | None:
    """The text of the file with its status, or None if there is no file. Raises ConfigError."""
    try:
        content = read_file(path, _MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = "it is a symbolic link" if os.path.islink(path) else (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot read {path}: {why}", _HINT) from None
    if content.cut:
        raise ConfigError(f"{path} is larger than {_MAX_BYTES // 1024} KiB", _HINT)
    try:
        return content.data.decode("utf-8"), content.status
    except UnicodeDecodeError as error:
        line = content.data.count(b"\n", 0, error.start) + 1
        column = error.start - content.data.rfind(b"\n", 0, error.start)
        raise ConfigError(f"{path}:{line}:{column}: invalid UTF-8", _HINT) from None
