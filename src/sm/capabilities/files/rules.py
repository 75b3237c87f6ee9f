"""The names and types of files, and the lines that name them. Pure."""

import mimetypes
from collections.abc import Iterable

from sm.capabilities.files.model import OperatorFile
from sm.core.lines import plural
from sm.core.text import MARK, is_folded, validate_text
from sm.errors import InvalidText

NAME_MAX = 100
_NAME_MAX_BYTES = 255
"""The limit of Linux."""
_UNKNOWN_TYPE = "application/octet-stream"
_TYPES = mimetypes.MimeTypes(filenames=())
"""The types of Python alone: the files of a machine would give another answer on each."""
for _suffix, _type in {".md": "text/markdown", ".webp": "image/webp", ".yaml": "application/yaml"}.items():
    _TYPES.add_type(_type, _suffix)


def checked_name(name: str) -> str:
    """The name of a file, in NFC and without blanks around it. Raises InvalidText for one that is no plain name."""
    words = validate_text(name, "name", NAME_MAX, one_line=True).strip()
    if words in ("", ".", "..") or "/" in words:
        raise InvalidText("name: must be the name of a file, without a directory")
    # The agent reads the name in a line of sm, and a person in a terminal.
    if is_folded(words) or not words.isprintable():
        raise InvalidText("name: must not have control characters or characters that change its direction")
    if len(words.encode()) > _NAME_MAX_BYTES:
        raise InvalidText(f"name: more than {_NAME_MAX_BYTES} bytes")
    return words


def media_type(name: str) -> str:
    """The media type by the suffix of the name. A compressed file counts as unknown."""
    kind, compression = _TYPES.guess_type(f"/{name}")
    return _UNKNOWN_TYPE if kind is None or compression is not None else kind


def size_words(size: int) -> str:
    """`12 kB`."""
    if size < 1000:
        return plural(size, "byte")
    return f"{size / 1000:.0f} kB" if size < 999_500 else f"{size / 1_000_000:.1f} MB"


def own_lines(directory: str, files: Iterable[OperatorFile]) -> tuple[str, ...]:
    """The lines of sm that name the files. `directory`: that of the session, as its agent sees it."""
    return tuple(
        f"{MARK} file {number}: {directory}/{file.id}/{file.name} ({file.media_type}, {size_words(file.size)})"
        for number, file in enumerate(files, 1)
    )
