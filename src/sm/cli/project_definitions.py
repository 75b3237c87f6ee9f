"""Finds definition files of agent types that `sm spawn` does not use, because no workspace has their directory."""

import os
import re

from sm.cli.instance import Instance
from sm.core.lines import line
from sm.errors import SmError, UnknownAgentType

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def explain(error: UnknownAgentType, instance: Instance, directory: str, name: str) -> UnknownAgentType:
    """The error with a hint at the file that defines the type in `directory` or above, if there is one."""
    try:
        found = _definition_above(instance, directory, name)
    except SmError:  # a broken configuration
        found = None
    if found is None:
        return error
    root, path = found
    return UnknownAgentType(
        error.message,
        f"{line(path, 4096)} is used only by agents of a workspace in {line(root, 4096)}: "
        f"sm workspace create SLUG --working-dir {line(root, 4096)}",
    )


def _definition_above(instance: Instance, directory: str, name: str) -> tuple[str, str] | None:
    """The project's directory and the path of the definition."""
    from sm.config import load
    from sm.providers import make_providers

    if not _NAME.fullmatch(name):
        return None
    config = load(instance.paths.config).config
    definitions = [provider.definitions for provider in make_providers(config).values()]
    places = [(".sm", "agents"), *(known.project_directory for known in definitions if known is not None)]
    home = os.path.expanduser("~")
    at = os.path.realpath(directory)
    while at != os.path.dirname(at) and at != home:
        for place in places:
            path = os.path.join(at, *place, f"{name}.md")
            if os.path.isfile(path):
                return at, path
        at = os.path.dirname(at)
    return None
