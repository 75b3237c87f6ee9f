"""The texts that `sm top` suggests for fields of actions, and the values for which they stand."""

from collections.abc import Mapping, Sequence

from sm.board import BoardRow, FieldKind, InputField, Target
from sm.cli.options import absolute
from sm.client.http import Client
from sm.errors import SmError


def suggested_sessions(rows: Mapping[str, BoardRow]) -> Mapping[str, str]:
    """The names of live sessions, each with its ID."""
    return {row.label: row.id for row in rows.values() if row.is_live}


def suggested_types(client: Client, target: Target) -> Sequence[str]:
    """The agent types of the target's workspace. None without a daemon: they only help to type. Blocks."""
    try:
        answer = client.get("/v1/agents", {"workspace": target.workspace, "cwd": target.cwd or None})
    except SmError:
        return ()
    return [found["name"] for found in answer["agents"] if not (found["shadowed_by"] or found["problem"])]


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
