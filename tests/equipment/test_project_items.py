"""Items of a workspace's files that need the operator's agreement: what is listed, and what can be agreed to."""

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from sm.core.items import ItemKind, ProjectItem
from sm.equipment.agreements import Agreements
from sm.equipment.project_items import ProjectItems, ProjectListing
from sm.errors import IllegalState, StorageFull
from sm.providers.claude.plan import ClaudeProvider
from sm.providers.claude.section import ClaudeSection
from sm.providers.command.provider import CommandProvider


class Project:
    """A directory with a `.mcp.json`, and the operator's agreements."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "shop"
        self.directory.mkdir()
        self.file = self.directory / ".mcp.json"
        self.state = root / "state"
        self.state.mkdir()
        providers = {
            "claude": ClaudeProvider(ClaudeSection(), (), is_root=False),
            "command": CommandProvider({}),
        }
        self.items = ProjectItems(providers, Agreements(str(self.state / "agreements.json")))

    def write(self, **servers: Any) -> None:
        self.file.write_text(json.dumps({"mcpServers": servers}))

    def listing(self) -> ProjectListing:
        return asyncio.run(self.items.listing(str(self.directory)))

    def states(self) -> dict[str, str]:
        return {item.name: str(state) for item, state in self.listing().items}

    def ids(self) -> dict[str, str]:
        return {item.name: item.id for item, _ in self.listing().items}

    def agree(self, *ids: str) -> None:
        asyncio.run(self.items.agree("shop", str(self.directory), ids))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_listing_shows_servers_with_their_content_and_state(project: Project) -> None:
    assert project.listing() == ProjectListing()
    project.write(files={"command": "python3", "env": {"A": "ü"}}, web={"url": "https://x.example"})
    project.agree(project.ids()["files"])
    (web, new), (files, agreed) = project.listing().items
    assert (new, agreed) == ("new", "agreed")
    assert (web.kind, web.name, web.file) == ("mcp_server", "web", str(project.file))
    assert json.loads(files.content) == {"command": "python3", "env": {"A": "ü"}}


def test_agree_refuses_an_id_when_its_item_has_changed(project: Project) -> None:
    project.write(a={"command": "x"}, b={"command": "x"})
    seen = project.ids()
    project.write(a={"command": "y"}, b={"command": "x"})
    with pytest.raises(IllegalState, match="has changed since you looked at it: nothing was agreed"):
        project.agree(*seen.values())
    assert project.states() == {"a": "new", "b": "new"}
    project.agree(seen["b"])
    project.agree(seen["b"])
    assert project.states() == {"a": "new", "b": "agreed"}
    project.agree(project.ids()["a"])
    project.write(a={"command": "z"}, b={"command": "x"})
    assert project.states() == {"a": "changed", "b": "agreed"}


def test_listing_names_a_file_that_cannot_be_read(project: Project) -> None:
    project.file.write_text("{")
    listing = project.listing()
    assert listing.items == ()
    assert f"cannot read the MCP servers in {project.file}: invalid JSON" in listing.warnings[0]


def test_listing_shows_200_items_and_those_without_an_agreement_first(project: Project) -> None:
    project.write(**{f"s{n}": {"command": "x"} for n in range(201)})
    first = project.ids()
    assert len(first) == 200
    project.agree(*first.values())
    assert next(iter(project.states().items())) == ("s200", "new")


def test_listing_times_out_with_a_warning_when_the_file_system_hangs(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setattr("sm.equipment.project_items._TIME_S", 0.01)
    monkeypatch.setattr("sm.equipment.project_items.project_servers", lambda path: released.wait() and {})
    try:
        assert "were not checked: no answer within 0.01 s" in project.listing().warnings[0]
    finally:
        released.set()


def test_agree_reports_a_full_disk(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, content: bytes) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("sm.equipment.agreements.replace_private", full)
    project.write(a={"command": "x"})
    with pytest.raises(StorageFull, match="the agreement was not stored"):
        project.agree(*project.ids().values())


def test_long_content_of_an_item_is_cut_for_people_but_counts_as_a_whole() -> None:
    long, longer = (ProjectItem(ItemKind.MCP_SERVER, "a", "/p/.mcp.json", b"x" * n) for n in (10_001, 10_002))
    assert long.content == "x" * 10_000 + "\n(1 more characters in /p/.mcp.json)"
    assert long.id != longer.id
    assert long.key == longer.key


def test_item_keys_differ_when_only_the_border_between_name_and_file_moves() -> None:
    assert (
        ProjectItem(ItemKind.MCP_SERVER, "a/", "b", b"").key
        != ProjectItem(ItemKind.MCP_SERVER, "a", "/b", b"").key
    )


def test_listing_shows_definitions_of_both_directories(project: Project) -> None:
    for place, name in ((".sm", "one"), (".claude", "two")):
        file = project.directory / place / "agents" / f"{name}.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\ntools: Bash\n---\nDo it.\n")
    assert [(item.subject, item.content[-8:]) for item, _ in project.listing().items] == [
        ("agent type one", "\nDo it.\n"),
        ("agent type two", "\nDo it.\n"),
    ]
    names = {ItemKind.AGENT_TYPE: ("one",), ItemKind.MCP_SERVER: ("two",)}
    asyncio.run(project.items.agree_to_named(str(project.directory), names))
    assert project.states() == {"two": "new", "one": "agreed"}
