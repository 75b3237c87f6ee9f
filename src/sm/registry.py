"""The registries of agent CLIs and of engines of containers: one line each, with the package that has all the rest.

docs/architecture.md names the modules of such a package. Hooks load this module, so it imports nothing. Rooms below the
packages use it too: a module of a package is imported when somebody asks for it.
"""

import sys

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

PROVIDERS = {
    "claude": "sm.providers.claude",
    "codex": "sm.providers.codex",
    "command": "sm.providers.command",
}
"""The package of each kind of agent CLI."""
ENGINES = {"docker": "sm.sandboxes.docker"}
"""The package of each kind of engine. The first one is the default."""


class HookFormat:
    """The form of one provider's hook events."""

    __slots__ = ("kept", "name_field", "opens_dialog")

    def __init__(self, name_field: str, opens_dialog: str, kept: "Mapping[str, int]") -> None:
        """`opens_dialog`: the name of the event after which the hook waits for an answer.

        `kept`: the fields kept of a large event, with the maximum number of characters of each text in them.
        """
        self.name_field = name_field
        self.opens_dialog = opens_dialog
        self.kept = kept


def load(name: str) -> "Any":
    """Import a module. `importlib` would cost a hook a millisecond."""
    __import__(name)
    return sys.modules[name]


def part(package: str, name: str) -> "Any":
    """Import a module of a package. Returns None if the package has no such module."""
    try:
        return load(f"{package}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{package}.{name}":
            raise
        return None


def hook_format(provider: str) -> HookFormat | None:
    """The form of a provider's hook events. Returns None for an unknown provider, and for one without hooks."""
    package = PROVIDERS.get(provider)
    form: HookFormat | None = None if package is None else getattr(part(package, "wire_format"), "HOOK", None)
    return form


def tool_use_names() -> "Iterator[str]":
    """The members of `_meta` with which MCP clients among the agent CLIs name their tool use."""
    for package in PROVIDERS.values():
        name = getattr(part(package, "wire_format"), "TOOL_USE_META", None)
        if name is not None:
            yield name
