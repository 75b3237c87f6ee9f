"""Truncates dialogs of agents before they are stored: a dialog may have any size."""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from sm.core.requests import Question
from sm.providers.readers import Dialog
from sm.state.request_steps import NewRequest

_ARGUMENTS_MAX_BYTES = 64 * 1024
_TEXTS_CUT_TO = (2000, 200, 20)
_QUESTIONS_MAX = 10
_QUESTION_MAX = 10_000
_OPTIONS_MAX = 50
_OPTION_MAX = 1000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def asked_of(dialog: Dialog, key: str, tool_use: str | None) -> NewRequest:
    """The request of a dialog, truncated: an agent wrote it, and it stays in memory."""
    arguments = _truncate(dialog.arguments)
    questions = tuple(
        Question(
            _storable(q.question, _QUESTION_MAX),
            tuple(_storable(option, _OPTION_MAX) for option in q.options[:_OPTIONS_MAX]),
            q.multiple,
        )
        for q in dialog.questions[:_QUESTIONS_MAX]
    )
    cut = dialog.cut or arguments is not dialog.arguments or questions != tuple(dialog.questions)
    return NewRequest(
        dialog.kind,
        questions,
        _storable(dialog.tool, _OPTION_MAX),
        arguments,
        hook=key,
        tool_use=None if tool_use is None else _storable(tool_use, _OPTION_MAX),
        agent=_storable(dialog.agent, _OPTION_MAX),
        cut=cut,
    )


def _truncate(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """`arguments` if they are short enough, else a copy with truncated texts, else an empty mapping."""
    if _is_short(arguments):
        return arguments
    for most in _TEXTS_CUT_TO:
        less: Mapping[str, Any] = _cut(arguments, most)
        if _is_short(less):
            return less
    return {}


def _is_short(arguments: Mapping[str, Any]) -> bool:
    try:
        return len(orjson.dumps(dict(arguments))) <= _ARGUMENTS_MAX_BYTES
    except (TypeError, ValueError):  # a lone surrogate, or no JSON
        return False


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return _storable(value, most)
    if isinstance(value, Mapping):
        return {_cut(name, most): _cut(item, most) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(item, most) for item in value]
    return value


def _storable(text: str, most: int) -> str:
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text[:most])
