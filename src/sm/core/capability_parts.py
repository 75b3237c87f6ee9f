"""Finds the parts of all capabilities by their names, so that no other module has to name a capability."""

from functools import cache
from types import ModuleType
from typing import Any

from sm.registry import load, part

_ROOM = "sm.capabilities"


def capability_parts(name: str) -> tuple[ModuleType, ...]:
    """Import the modules of that name from the packages of the capabilities that sm has, in their order.

    A capability without such a module is left out. docs/architecture.md lists the names.
    """
    return _parts(name, tuple(load(_ROOM).CAPABILITIES))


def capability_operations() -> tuple[Any, ...]:
    """The operations (`sm.operations.Operation`) of the capabilities that sm has, in their order."""
    return tuple(operation for module in capability_parts("operations") for operation in module.OPERATIONS)


@cache
def _parts(name: str, capabilities: tuple[str, ...]) -> tuple[ModuleType, ...]:
    found = (part(f"{_ROOM}.{capability}", name) for capability in capabilities)
    return tuple(module for module in found if module is not None)
