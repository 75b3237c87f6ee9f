"""Finds the parts of all capabilities by their names, so that no other module has to name a capability."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_ROOM = "sm.capabilities"


def capability_parts(name: str) -> tuple[ModuleType, ...]:
    """Import the modules of that name from the packages of the capabilities that sm has, in their order.

    A capability without such a module is left out. docs/architecture.md lists the names.
    """
    return _parts(name, tuple(import_module(_ROOM).CAPABILITIES))


def capability_operations() -> tuple[Any, ...]:
    """The operations (`sm.operations.Operation`) of the capabilities that sm has, in their order."""
    return tuple(operation for part in capability_parts("operations") for operation in part.OPERATIONS)


@cache
def _parts(name: str, capabilities: tuple[str, ...]) -> tuple[ModuleType, ...]:
    modules = (f"{_ROOM}.{capability}.{name}" for capability in capabilities)
    return tuple(import_module(module) for module in modules if find_spec(module) is not None)
