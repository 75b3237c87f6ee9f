"""The operations of archives. Standard library alone; `operations.exporting` carries them out."""

from sm.operations import Operation, PackedFile
from sm.wire_types.archives import ArchivesView

TAG = "search"
"""The tag of the routes in docs/openapi.json."""
SHOW = Operation(
    "archives",
    "Show the room that archives take, and their limits.",
    "GET /v1/archives",
    ArchivesView,
)
EXPORT = Operation(
    "export",
    "Read the archive of an ended session, as a tar.gz file.",
    "GET /v1/sessions/{ref}/export",
    PackedFile,
    command="export SESSION FILE",
)
OPERATIONS = (SHOW, EXPORT)
