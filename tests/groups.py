"""Groups of tests that share a scarce part of the machine: a group stays with one worker, also with free ones.

The tests of a file with a Docker engine are one group: they share a container, or take turns at the engine. Files run
beside each other. Two groups have tests of many files: those that stop an engine of their own, so that one such engine
keeps its image, and those of the real claude, of which each takes a whole core while it starts.
"""

import pytest
from _pytest.nodeid import coerce_node_id

from tests import claude_container

CLAUDE = "test_claude_"
CONTAINERS = "containers"


def group_of(item: pytest.Function) -> str | None:
    """The group of a test, or None if it runs beside all others."""
    if marker := item.get_closest_marker("xdist_group"):
        return str(marker.args[0])
    if item.get_closest_marker("browser"):
        return CONTAINERS
    if "private_engine" in item.fixturenames:
        return f"{CONTAINERS} of private engines"
    if "engine" in item.fixturenames:
        return f"{CONTAINERS} of {item.path.stem}"
    return "claude" if item.path.name.startswith(CLAUDE) else None


@pytest.hookimpl(trylast=True)  # of the tests that other hooks have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    claude_container.deselect(config, items)
    has_browser = any(item.get_closest_marker("browser") for item in items)
    for item in items:
        # Processes of a simulation are played.
        if not isinstance(item, pytest.Function) or item.get_closest_marker("simulation"):
            continue
        if (group := group_of(item)) is None:
            continue
        # chromium drops its requests when a network interface of a container comes or goes.
        if has_browser and group.startswith(CONTAINERS):
            group = CONTAINERS
        _put_in_group(item, group)


def _put_in_group(item: pytest.Function, group: str) -> None:
    item.add_marker(pytest.mark.xdist_group(group))
    if item.config.getoption("loadgroup", default=False):
        # pytest-xdist knows a group by the end of the ids, and 3.8 cannot write it: since pytest 9.2 an item keeps its
        # id in another attribute.
        item._id = coerce_node_id(f"{item.nodeid}@{group}")
