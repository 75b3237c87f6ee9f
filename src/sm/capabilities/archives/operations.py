"""The operations of archives. Standard library alone; `exporting` carries them out."""

from sm.operations import Operation, PackedFile
from sm.operations.access_rules import OPERATOR, Audience
from sm.wire_types.archives import ArchivesView

TAG = "search"
"""The tag of the routes in docs/openapi.json."""
SHOW = Operation(
    "archives",
    "Show the room that archives take, and their limits.",
    "GET /v1/archives",
    ArchivesView,
    audience=Audience("archives", "see the room of archives", OPERATOR),
)
EXPORT = Operation(
    "export",
    "Read the archive of an ended session, as a tar.gz file.",
    "GET /v1/sessions/{ref}/export",
    PackedFile,
    # An archive has rows as they are stored, with the names of sessions that the caller may not see.
    audience=Audience("export", "export the archive of", OPERATOR),
    command="export SESSION FILE",
)
OPERATIONS = (SHOW, EXPORT)
