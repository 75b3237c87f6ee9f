"""The rows that tabs are sent: of all sessions, or without archived ones."""

from sm.board import RowChange, SessionTable
from sm.web.frames import Fields, row_fields


class RowSource:
    def __init__(self, table: SessionTable) -> None:
        self.table = table
        self.fields: dict[str, Fields] = {}
        """The fields of each row. Equal fields are the same object."""

    def update(self, change: RowChange) -> None:
        """Bring `fields` up to date with a change of the table."""
        for session_id in change.ids:
            row = self.table.rows.get(session_id)
            if row is None:
                self.fields.pop(session_id, None)
                continue
            fields = row_fields(row)
            if self.fields.get(session_id) != fields:
                self.fields[session_id] = fields
