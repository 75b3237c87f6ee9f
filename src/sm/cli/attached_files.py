"""Uploads the files of `--file` for a message or a task."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click

from sm.client.http import Client
from sm.core.lines import line
from sm.errors import ConfigError, InvalidPath, SmError, UsageError

Command = TypeVar("Command", bound=Callable[..., Any])
FILE_MAX_BYTES = 10 * 1024 * 1024


def file_option(help: str) -> Callable[[Command], Command]:
    """The option `--file`, which fills `files`."""
    return click.option("--file", "files", metavar="PATH", multiple=True, type=click.Path(), help=help)


def read_files(paths: Sequence[str]) -> list[tuple[str, bytes]]:
    """The path and the content of each file. Raises InvalidPath and UsageError."""
    return [(path, _read(path)) for path in paths]


@contextmanager
def uploaded(client: Client, files: Sequence[tuple[str, bytes]]) -> Iterator[list[str]]:
    """Upload files and yield their ids. Delete the uploads again after an error, as far as nothing has used them."""
    ids: list[str] = []
    try:
        for path, content in files:
            ids.append(_upload(client, path, content))
        yield ids
    except SmError:
        delete_uploads(client, ids)
        raise


def delete_uploads(client: Client, ids: Sequence[str]) -> None:
    """Delete uploads, as far as nothing has used them. Raises nothing."""
    for file_id in ids:
        with suppress(SmError):
            client.delete(f"/v1/files/{file_id}")


def _upload(client: Client, path: str, content: bytes) -> str:
    try:
        return str(client.upload("/v1/files", {"name": os.path.basename(path)}, content)["file_id"])
    except ConfigError:  # the start of the daemon has read the configuration
        raise
    except UsageError as error:
        error.message = f"--file {line(path, 4096)}: {error.message}"
        raise


def _read(path: str) -> bytes:
    shown = line(path, 4096)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidPath(f"--file {shown}: its name is not valid UTF-8") from None
    try:
        # Without O_NONBLOCK, the opening of a named pipe would wait for a writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidPath(f"--file {shown}: not a regular file")
            content = file.read(FILE_MAX_BYTES + 1) if status.st_size <= FILE_MAX_BYTES else b""
    except OSError as error:
        raise InvalidPath(f"--file {shown}: {(error.strerror or str(error)).lower()}") from None
    if status.st_size > FILE_MAX_BYTES or len(content) > FILE_MAX_BYTES:
        raise UsageError(f"--file {shown}: larger than {FILE_MAX_BYTES:,} bytes")
    return content
