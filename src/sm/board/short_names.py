"""The names of sessions without their agent type, for views that show the type beside the name. Pure."""

from collections.abc import Container

from sm.board.row import BoardRow


def short_name(row: BoardRow, labels: Container[str] = ()) -> str:
    """`writer` for `general-purpose-writer`, to show beside the agent type.

    The label in full if nothing but the id is left of it, or if the rest is the label of another session. `labels`: of
    all sessions of the view. Commands need the label in full.
    """
    type_, mark, rest = row.label.partition(f"{row.agent_type.lower()}-")
    if type_ or not mark or not rest or rest.startswith(("(", "-")):
        return row.label
    return row.label if rest == row.id or rest in labels else rest
