"""The operations of files. Standard library alone; `uploads` carries them out."""

from typing import Annotated

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.arguments import NEEDED
from sm.operations.session_operations import ATTACH_FILES
from sm.wire_types.fields import EmptyView
from sm.wire_types.files import FilesView, UploadedFileView

TAG = "messages"
"""The tag of the routes in docs/openapi.json."""
FILE_MAX_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileToUpload:
    name: Annotated[str, NEEDED] = ""
    """A file name without a directory, at most 100 characters."""


SHOW = Operation(
    "files",
    "Show the number and the limits of uploaded files that no message has named yet.",
    "GET /v1/files",
    FilesView,
    audience=ATTACH_FILES,
    on_host=True,
)
UPLOAD = Operation(
    "upload_file",
    """Upload a file for a message or the task of a new session.

    The body is the file, at most 10 MiB. A message or a spawn takes it by its id, once. A file that none of them takes
    is deleted after a day.""",
    "POST /v1/files",
    UploadedFileView,
    FileToUpload,
    audience=ATTACH_FILES,
    on_host=True,
    command="send SESSION TEXT --file PATH",
    takes_key=False,
    file_max_bytes=FILE_MAX_BYTES,
    creates=True,
)
DELETE = Operation(
    "delete_file",
    "Delete an uploaded file that no message has named yet.",
    "DELETE /v1/files/{file_id}",
    EmptyView,
    target="The `file_id` of a file.",
    audience=ATTACH_FILES,
    on_host=True,
    takes_key=False,
)
OPERATIONS = (SHOW, UPLOAD, DELETE)
