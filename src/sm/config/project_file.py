"""Reads `.sm/project.yaml`, the settings of a project in its own directory. Agents can write it."""

from typing import TypeVar

import yaml
from pydantic import BaseModel

from sm.config.loading import Document, yaml_mistake
from sm.core.text import folded
from sm.errors import UsageError
from sm.linux.files import read_file

PROJECT_FILE = ".sm/project.yaml"
_FILE_MAX = 16 * 1024  # YAML is parsed at about 100 kB a second
_Model = TypeVar("_Model", bound=BaseModel)


def read_project_file(directory: str, model: type[_Model]) -> _Model | None:
    """The settings of the project in this directory, or None if it has none. Blocks.

    Raises UsageError for a file that is invalid or too large, and for a link, because agents can write there.
    """
    path = f"{directory.rstrip('/')}/{PROJECT_FILE}"
    try:
        content = read_file(path, _FILE_MAX)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unusable(path, error.strerror or "not a regular file, or a link") from None
    if content.cut:
        raise unusable(path, f"it is larger than {_FILE_MAX // 1024} KiB")
    try:
        text = content.data.decode("utf-8-sig")
        document = Document(text)
    except UnicodeDecodeError:
        raise unusable(path, "invalid UTF-8") from None
    except yaml.YAMLError as error:
        raise unusable(path, yaml_mistake(error, text)) from None
    read = document.validate(model)
    if read is None or document.mistakes:
        raise unusable(path, document.mistakes[0])
    return read


def unusable(path: str, reason: str) -> UsageError:
    """The error for a project file at this path."""
    return UsageError(f"cannot use {folded(path, 400)}: {folded(reason, 400)}", "fix the file or remove it")
