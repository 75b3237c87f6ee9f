"""The texts that `sm top` suggests for fields of actions, and the values for which they stand."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from sm.board import BoardRow, FieldKind, InputField
from sm.cli.options import absolute

Rows: TypeAlias = Mapping[str, BoardRow]


def suggested_sessions(rows: Rows) -> Mapping[str, str]:
    """The names of live sessions, each with its ID."""
    return {row.label: row.id for row in rows.values() if row.is_live}


def entered(
    fields: Sequence[InputField], given: Mapping[str, str], sessions: Mapping[str, str]
) -> Mapping[str, str]:
    """The values for the daemon: whole paths, and the IDs of suggested sessions."""
    values = dict(given)
    for field in fields:
        value = given.get(field.name)
        if value is not None and field.kind is FieldKind.DIRECTORY:
            values[field.name] = absolute(value)
        elif value is not None and field.kind is FieldKind.SESSION:
            values[field.name] = sessions.get(value, value)
    return values
