"""Agent types: precedence of definitions, and limits of files that agents can write."""

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sm.config import AgentConfig, Config, Definition, read_definition
from sm.config.model import Command, DefaultCapabilities
from sm.core.items import ItemKind, ProjectItem
from sm.core.models import Capabilities, Workspace
from sm.equipment import directories
from sm.equipment.agent_types import AgentType, AgentTypes, Catalog, check_name
from sm.equipment.agreements import Agreements
from sm.equipment.directories import Directory, definition_items
from sm.errors import ConfigError, ExternalError, NotPermitted, UnknownAgentType
from sm.paths import InstancePaths
from sm.providers import make_providers
from sm.providers.claude.section import ClaudeSection
from tests import samples
from tests.waits import NEVER_S


class World:
    """A workspace, a home with claude's directory, and the directory of config.yaml."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.shop, self.home, self.sm = path / "shop", path / "home", path / "sm"
        self.shop_sm = self.shop / ".sm" / "agents"
        self.shop_claude = self.shop / ".claude" / "agents"
        self.user_sm = self.sm / "agents"
        self.user_claude = self.home / ".claude" / "agents"
        for directory in (self.shop_sm, self.shop_claude, self.user_sm, self.user_claude):
            directory.mkdir(parents=True)
        config.setdefault(
            "claude",
            ClaudeSection(agent_configs={"Engineer": AgentConfig(model="sonnet", description="codes")}),
        )
        config.setdefault("commands", {"Sh": Command(command=("sh",))})
        loaded = Config(**config)
        self.types = AgentTypes(
            loaded,
            InstancePaths(str(self.sm / "config.yaml"), str(self.sm / "state")),
            make_providers(loaded),
            Agreements(str(path / "agreements.json")),
        )

    def workspace(self, *agents: str) -> Workspace:
        return Workspace("shop", str(self.shop), samples.AT, capabilities=Capabilities(agents=agents or None))

    async def catalog_of(
        self,
        *agents: str,
        no_workspace: bool = False,
        environment: Mapping[str, str] | None = None,
        wanted: str | None = None,
    ) -> Catalog:
        return await self.types.catalog(
            None if no_workspace else self.workspace(*agents),
            {"HOME": str(self.home)} if environment is None else environment,
            wanted=wanted,
        )

    def catalog(self, *agents: str, **options: Any) -> Catalog:
        return asyncio.run(self.catalog_of(*agents, **options))

    def agree(self) -> None:
        """Agree to every definition in the workspace as it is now."""
        workspace = Directory(str(self.shop), (".sm", "agents"), "claude", own=False)
        Agreements(str(self.shop.parent / "agreements.json")).agree(definition_items(workspace))

    def origins(self, **options: Any) -> dict[str, str]:
        return {kind.name: kind.origin for kind in self.catalog(**options).usable}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def define(
    directory: Path, name: str, settings: str = "", prompt: str = "Do it.", *, agreed: bool = True
) -> str:
    path = directory / f"{name}.md"
    path.write_text(f"---\n{settings}\n---\n{prompt}\n")
    if agreed:
        agree(path)
    return str(path)


def agree(path: Path) -> None:
    """Agree to a definition in the workspace as it is now. The operator's own directories need no agreement."""
    for root in [above.parent for above in path.parents if above.name == "shop"]:
        item = ProjectItem(ItemKind.AGENT_TYPE, path.stem, str(path), path.read_bytes())
        Agreements(str(root / "agreements.json")).agree([item])


def only(catalog: Catalog, name: str) -> AgentType:
    (kind,) = [kind for kind in catalog.types if kind.name == name]
    return kind


# ------------------------------------------------------------------------------------------------- precedence


def test_catalog_has_configured_types_without_any_file(world: World) -> None:
    assert world.origins() == {"Engineer": "config", "Sh": "config"}
    engineer, sh = world.catalog().types
    assert (engineer.provider, engineer.agent.model) == ("claude", "sonnet")
    assert (sh.provider, sh.agent) == ("command", AgentConfig())


def test_definition_in_first_directory_shadows_the_others(world: World) -> None:
    directories = (world.shop_sm, world.shop_claude, world.user_sm, world.user_claude)
    paths = [define(directory, "reviewer", f"model: m{n}") for n, directory in enumerate(directories)]
    for n, path in enumerate(paths):
        reviewers = [kind for kind in world.catalog().types if kind.name == "reviewer"]
        assert [kind.origin for kind in reviewers] == paths[n:]
        assert [kind.shadowed_by for kind in reviewers] == [None, *[path] * (len(paths) - n - 1)]
        assert world.catalog().pick("reviewer").agent.model == f"m{n}"
        os.unlink(path)
    assert "reviewer" not in world.origins()


@pytest.mark.parametrize("name", ["Engineer", "engineer", "Sh", "SH"])
def test_file_never_replaces_a_configured_type_whatever_the_case(world: World, name: str) -> None:
    for directory in (world.shop_sm, world.user_sm):
        define(directory, name, "model: opus")
    assert world.origins() == {"Engineer": "config", "Sh": "config"}
    assert {kind.shadowed_by for kind in world.catalog().types} == {None, "config"}


def test_workspace_definitions_apply_to_its_sessions_only(world: World) -> None:
    define(world.shop_sm, "reviewer")
    writer = define(world.user_sm, "writer")
    assert world.origins(no_workspace=True) == {"Engineer": "config", "Sh": "config", "writer": writer}


def test_claude_directory_follows_the_environment_of_the_session(world: World, tmp_path: Path) -> None:
    define(world.user_claude, "at-home")
    other = tmp_path / "other" / "agents"
    other.mkdir(parents=True)
    define(other, "elsewhere")
    environment = {"HOME": str(world.home), "CLAUDE_CONFIG_DIR": str(other.parent)}
    assert "at-home" in world.origins()
    assert "elsewhere" in world.origins(environment=environment)
    assert "at-home" not in world.origins(environment=environment)
    for without_home in ({}, {"CLAUDE_CONFIG_DIR": "relative"}, {"HOME": ""}):
        assert set(world.origins(environment=without_home)) == {"Engineer", "Sh"}


def test_claude_directory_follows_the_configured_environment(tmp_path: Path) -> None:
    other = tmp_path / "other" / "agents"
    other.mkdir(parents=True)
    define(other, "elsewhere")
    world = World(tmp_path, claude=ClaudeSection(env={"CLAUDE_CONFIG_DIR": str(other.parent)}))
    assert "elsewhere" in world.origins()


def test_spawnable_is_ignored_when_claude_directory_is_inside_the_workspace(world: World) -> None:
    define(world.shop_claude, "reviewer", "spawnable: true")
    catalog = world.catalog(environment={"HOME": str(world.shop)})
    assert not only(catalog, "reviewer").agent.spawnable


def test_spawnable_takes_effect_only_in_directories_of_the_operator(world: World) -> None:
    for n, directory in enumerate((world.shop_sm, world.shop_claude, world.user_sm, world.user_claude)):
        define(directory, f"agent{n}", "spawnable: true")
    catalog = world.catalog()
    assert [only(catalog, f"agent{n}").agent.spawnable for n in range(4)] == [False, False, True, True]
    assert "`spawnable` has no effect" in only(catalog, "agent0").warnings[0]
    assert only(catalog, "agent2").warnings == ()


def test_definition_warns_when_its_tools_do_not_allow_reports(world: World) -> None:
    define(world.user_sm, "reader", "tools: Read")
    define(world.user_sm, "worker", "tools: Read, Bash")
    assert "it cannot report" in only(world.catalog(), "reader").warnings[0]
    assert only(world.catalog(), "worker").warnings == ()


# -------------------------------------------------------------------------------------------------- filters


def test_workspace_offers_only_the_types_of_its_setting(world: World) -> None:
    define(world.shop_sm, "reviewer")
    catalog = world.catalog("reviewer", "Sh")
    assert {kind.name for kind in catalog.usable} == {"reviewer", "Sh"}
    assert catalog.pick("reviewer").name == "reviewer"
    with pytest.raises(UnknownAgentType, match="unknown agent type Engineer") as caught:
        catalog.pick("Engineer")
    assert caught.value.hint == ("to allow Engineer in workspace shop: sm workspace set shop --agents NAMES")
    # The type of an existing session stays known, because a restore writes the briefing again.
    known = catalog.find("Engineer")
    assert known is not None
    assert known.agent.model == "sonnet"


def test_default_capabilities_apply_to_sessions_without_a_workspace(tmp_path: Path) -> None:
    world = World(tmp_path, default_capabilities=DefaultCapabilities(agents=("Sh",)))
    assert set(world.origins(no_workspace=True)) == {"Sh"}
    assert set(world.origins()) == {"Engineer", "Sh"}
    with pytest.raises(UnknownAgentType) as caught:
        world.catalog(no_workspace=True).pick("Engineer")
    assert "default_capabilities.agents" in str(caught.value.hint)


# -------------------------------------------------------------------------------------------------- errors


def test_unknown_type_error_hints_at_a_similar_name(world: World) -> None:
    define(world.shop_sm, "reviewer")
    for name, hint in (("enginer", "did you mean Engineer?"), ("Reviewr", "did you mean reviewer?")):
        with pytest.raises(UnknownAgentType) as caught:
            world.catalog().pick(name)
        assert caught.value.hint == hint
    with pytest.raises(UnknownAgentType) as caught:
        world.catalog().pick("zzz")
    assert str(caught.value.hint).startswith("known agent types: Engineer, Sh, reviewer; ")


def test_type_is_found_whatever_the_case_of_its_name(world: World) -> None:
    define(world.shop_sm, "reviewer")
    for name, found in (("engineer", "Engineer"), ("ENGINEER", "Engineer"), ("Reviewer", "reviewer")):
        assert world.catalog(wanted=name).pick(name).name == found


def test_broken_definition_is_reported_without_affecting_others(world: World) -> None:
    path = define(world.shop_sm, "broken", "model: -x\nspawnable: 5")
    define(world.user_sm, "broken", "model: opus")
    define(world.shop_sm, "reviewer")
    catalog = world.catalog()
    assert {kind.name for kind in catalog.usable} == {"Engineer", "Sh", "reviewer"}
    with pytest.raises(ConfigError) as caught:
        catalog.pick("broken")
    assert caught.value.message == (
        "agent type broken cannot be used:\n"
        f"{path}:2:8: model: is not a valid model name: use opus, sonnet, haiku or a full model name\n"
        f"{path}:3:12: spawnable: must be true or false, not 5"
    )
    (second,) = [kind for kind in catalog.types if kind.shadowed_by == path]
    assert second.problem is None


def test_changed_definition_is_read_again_when_its_mtime_is_the_same(world: World) -> None:
    path = Path(define(world.shop_sm, "reviewer", "model: aaaa"))
    for model in ("bbbb", "cccc", "dddd"):
        before = path.stat()
        path.write_text(
            path.read_text().replace(
                f"model: {world.catalog().pick('reviewer').agent.model}", f"model: {model}"
            )
        )
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as with a coarse clock
        agree(path)
        assert world.catalog().pick("reviewer").agent.model == model
    path.unlink()
    assert "reviewer" not in world.origins()


def test_unchanged_definition_is_parsed_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(define(world.shop_sm, "reviewer", "model: opus"))
    parsed: list[str] = []

    def parse(content: bytes, name: str, providers: Sequence[str]) -> Definition:
        parsed.append(name)
        return read_definition(content, name, providers)

    monkeypatch.setattr(directories, "read_definition", parse)
    for _ in range(3):
        path.touch()
        assert world.catalog().pick("reviewer").agent.model == "opus"
    assert parsed == ["reviewer"]


# --------------------------------------------------------------------------------------- hostile files


@pytest.mark.parametrize(
    "name",
    ["", "../x", "a/b", "a\0b", "a" * 65, ".", "..", "-x", "a.md", "a b", "ä", "a\n", "/etc/passwd", "*"],
)
def test_check_name_refuses_name_that_could_be_a_path(name: str) -> None:
    with pytest.raises(UnknownAgentType):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "A" * 64, "general-purpose", "x_1"])
def test_check_name_accepts_plain_names(name: str) -> None:
    check_name(name)


def test_huge_number_is_reported_for_its_definition_only(world: World) -> None:
    for name, number in (("broken", "0x" + "f" * 8000), ("sixty", "1" + ":1" * 4000)):
        define(world.shop_sm, name, f"name: {number}")
    define(world.shop_sm, "reviewer")
    catalog = world.catalog()
    for name in ("broken", "sixty"):
        assert "too many digits" in str(only(catalog, name).problem)
    assert catalog.pick("reviewer").usable


def test_definition_with_unexpected_error_is_reported_without_affecting_others(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(content: bytes, name: str, providers: Sequence[str]) -> Definition:
        if name == "broken":
            raise RecursionError("a bug")
        return read_definition(content, name, providers)

    monkeypatch.setattr("sm.equipment.directories.read_definition", broken)
    define(world.shop_sm, "broken", "model: opus")
    define(world.shop_sm, "reviewer")
    catalog = world.catalog()
    assert only(catalog, "broken").problem == "1:1: cannot be read: internal error of sm (see sm daemon logs)"
    assert catalog.pick("reviewer").usable
    assert [
        "could not read the definition of an agent type" in record.message for record in caplog.records
    ] == [True]
    assert "model: opus" not in caplog.text


def test_definitions_of_one_directory_are_read_up_to_a_total_size(world: World) -> None:
    for n in range(12):
        define(world.shop_sm, f"agent{n:02}", f"description: {'a' * 8000}")
    (world.shop_sm / "unclosed.md").write_text("---\n" + "a: b\n" * 1600)
    define(world.user_sm, "mine", "description: mine")
    for _ in range(2):  # the second round uses cached definitions
        catalog = world.catalog()
        read = [only(catalog, f"agent{n:02}").problem is None for n in range(12)]
        assert read == [True] * 8 + [False] * 4
        assert only(catalog, "agent08").problem == (
            "1:1: is ignored: the settings in this directory are longer than 65,536 characters in total"
        )
        assert only(catalog, "mine").usable
    for n in range(4):
        (world.shop_sm / f"agent{n:02}.md").unlink()
    catalog = world.catalog()
    assert all(only(catalog, f"agent{n:02}").problem is None for n in range(4, 12))


class Held:
    """Blocks the read of definitions whose name begins with `held`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._content = directories._content
        monkeypatch.setattr(directories, "_content", self._read)
        self._monkeypatch = monkeypatch
        self.within_s = 0.0
        self.limit(0.5)

    def limit(self, within_s: float) -> None:
        """Set the time that callers wait for files. A short limit may pass before anything was read."""
        self.within_s = within_s
        self._monkeypatch.setattr("sm.equipment.agent_types._READ_WITHIN_S", within_s)
        self._monkeypatch.setattr("sm.equipment.agent_types._BRIEFING_WITHIN_S", within_s)

    def _read(self, directory: Directory, descriptor: int, file_name: str) -> bytes | str | None:
        name = file_name.removesuffix(".md")
        self.read.append(name)
        self.begun.set()
        if name.startswith("held"):
            assert self.go_on.wait()
        return self._content(directory, descriptor, file_name)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    blocker = Held(monkeypatch)
    yield blocker
    blocker.go_on.set()


async def test_concurrent_callers_share_one_read_of_the_directories(world: World, held: Held) -> None:
    held.limit(NEVER_S)  # no caller times out
    define(world.shop_sm, "held1")
    async with asyncio.TaskGroup() as group:
        first = group.create_task(world.catalog_of())
        await asyncio.to_thread(held.begun.wait)
        define(world.shop_sm, "later")
        others = [group.create_task(world.catalog_of()) for _ in range(20)]
        for _ in range(10):
            await asyncio.sleep(0)  # each task runs until its first wait
        held.go_on.set()
    assert "later" not in {kind.name for kind in first.result().types}
    for other in others:  # includes the file that existed when the caller came
        assert only(other.result(), "later").usable
    assert held.read.count("held1") == 2


async def test_callers_that_time_out_leave_only_one_reading_thread_behind(world: World, held: Held) -> None:
    before = set(threading.enumerate())
    define(world.shop_sm, "held1")
    held.limit(NEVER_S)
    first = asyncio.create_task(world.catalog_of())
    assert await asyncio.to_thread(held.begun.wait)
    held.limit(0.5)
    results = await asyncio.gather(*(world.catalog_of() for _ in range(8)), return_exceptions=True)
    assert {type(error) for error in results} == {ExternalError}
    first.cancel()  # the first caller stops waiting too
    await asyncio.wait([first])
    assert held.read == ["held1"]
    started = set(threading.enumerate()) - before
    assert sum(thread.name.startswith("sm-definitions") for thread in started) <= 2
    held.limit(NEVER_S)
    other = World(world.shop / "elsewhere")
    define(other.shop_sm, "reviewer")
    workspace = Workspace("other", str(other.shop), samples.AT)
    catalog = await world.types.catalog(workspace, {"HOME": str(other.home)})
    assert catalog.pick("reviewer").usable
    held.go_on.set()


async def test_configured_type_is_found_while_directories_do_not_answer(world: World, held: Held) -> None:
    define(world.shop_sm, "held1")
    define(world.user_sm, "mine")
    catalog = await world.catalog_of(wanted="Engineer")
    assert catalog.pick("Engineer").agent.model == "sonnet"
    assert catalog.caller_warnings == (
        "the agent does not know the agent types that files define: "
        f"their directories did not respond within {held.within_s:g} s",
    )
    command = await world.catalog_of(wanted="Sh")
    assert command.pick("Sh").provider == "command"
    assert command.caller_warnings == ()
    for wanted in ("held1", "mine", None):
        with pytest.raises(ExternalError):
            await world.catalog_of(wanted=wanted)
    held.limit(NEVER_S)
    held.go_on.set()
    assert (await world.catalog_of(wanted="held1")).pick("held1").usable
    assert (await world.catalog_of(wanted="Engineer")).caller_warnings == ()


def test_type_that_is_not_allowed_is_refused_while_directories_do_not_answer(
    world: World, held: Held
) -> None:
    define(world.shop_sm, "held1")
    with pytest.raises(UnknownAgentType):
        world.catalog("Sh", wanted="Engineer").pick("Engineer")
    held.go_on.set()


def test_unmatched_names_are_reported_with_the_nearest_type(world: World) -> None:
    define(world.shop_sm, "reviewer")
    define(world.user_sm, "broken", "model: -x")
    catalog = world.catalog("reviewer")
    assert catalog.unknown_name_warnings(("Engineer", "Sh", "reviewer", "broken")) == ()
    assert catalog.unknown_name_warnings(("Engineeer", "engineer", "zzz")) == (
        "agent type Engineeer does not exist; did you mean Engineer?",
        "agent type engineer does not exist; did you mean Engineer?",
        "agent type zzz does not exist",
    )


def test_named_pipe_in_a_directory_does_not_block_the_read(world: World) -> None:
    os.mkfifo(world.shop_sm / "pipe.md")
    define(world.shop_sm, "reviewer")
    os.mkfifo(world.user_sm / "mine.md")
    before = threading.active_count()
    catalog = world.catalog()
    assert only(catalog, "pipe").problem == "1:1: is not a regular file"
    assert only(catalog, "mine").problem == "1:1: is not a regular file"
    assert catalog.pick("reviewer").usable
    assert threading.active_count() <= before + 2


def test_link_in_workspace_directory_is_not_followed(world: World, tmp_path: Path) -> None:
    secret = define(tmp_path, "secret", "description: SECRET", "SECRET")
    os.symlink(secret, world.shop_sm / "leak.md")
    os.symlink("missing", world.shop_sm / "dangling.md")
    os.symlink(secret, world.user_sm / "mine.md")
    catalog = world.catalog()
    assert only(catalog, "leak").problem == (
        "1:1: cannot be read: links are not followed in the directory of a workspace"
    )
    assert only(catalog, "leak").agent == AgentConfig()
    assert only(catalog, "dangling").problem is not None
    assert only(catalog, "mine").agent.prompt == "SECRET"  # dotfiles are often links


@pytest.mark.parametrize("linked", [".sm", ".sm/agents", ".claude", ".claude/agents"])
def test_linked_workspace_directory_is_not_read(world: World, tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "agents").mkdir(parents=True)
    define(elsewhere, "leak")
    define(elsewhere / "agents", "leak")
    path = world.shop / linked
    path.rename(tmp_path / "away")
    path.symlink_to(elsewhere)
    catalog = world.catalog()
    assert "leak" not in {kind.name for kind in catalog.types}
    (warning,) = catalog.warnings
    assert "links are not followed" in warning


def test_linked_directory_of_the_operator_is_read(world: World, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    world.user_sm.rename(dotfiles)
    world.user_sm.symlink_to(dotfiles)
    define(dotfiles, "writer")
    assert "writer" in world.origins()


def test_huge_invalid_and_surplus_files_are_reported(world: World) -> None:
    (world.shop_sm / "huge.md").write_bytes(b"---\n---\n" + b"a" * 70_000)
    with open(world.shop_sm / "sparse.md", "wb") as file:
        file.truncate(1 << 40)
    (world.shop_sm / "directory.md").mkdir()
    (world.shop_sm / "notes.txt").write_text("nothing")
    (world.shop_sm / "my agent.md").write_text("nothing")
    (world.shop_sm / ".md").write_text("nothing")
    (world.shop_sm / os.fsdecode(b"\xff.md")).write_text("nothing")
    world.agree()
    catalog = world.catalog()
    assert (
        only(catalog, "huge").problem
        == only(catalog, "sparse").problem
        == "1:1: the file is larger than 64 KiB"
    )
    assert only(catalog, "directory").problem == "1:1: is not a regular file"
    (warning,) = catalog.warnings
    assert "my agent.md" in warning
    warning.encode()
    for n in range(150):
        define(world.shop_claude, f"agent{n:03}")
    catalog = world.catalog()
    assert sum(kind.origin.startswith(str(world.shop_claude)) for kind in catalog.types) == 100
    assert any("150 definitions: sm reads only the first 100" in warning for warning in catalog.warnings)


def test_unreadable_directory_is_reported_as_a_warning(world: World) -> None:
    world.shop_sm.rmdir()
    world.shop_sm.write_text("no directory")
    (warning,) = world.catalog().warnings
    assert warning.startswith(f"cannot read {world.shop_sm}: ")
    world.shop_sm.unlink()
    world.shop.rename(world.shop.with_name("gone"))
    assert world.catalog().warnings == ()


def test_definition_of_the_workspace_is_left_out_until_the_operator_agrees(world: World) -> None:
    path = define(world.shop_claude, "reviewer", "description: obey me", "Evil.", agreed=False)
    (kind,) = [t for t in world.catalog().types if t.name == "reviewer"]
    assert (kind.usable, kind.agreement, kind.agent) == (False, "new", AgentConfig())
    with pytest.raises(NotPermitted, match=f"left out until the operator agrees to {path} .new.") as error:
        world.catalog().pick("reviewer")
    assert error.value.hint == "sm workspace agree shop"
    agree(Path(path))
    assert world.catalog().pick("reviewer").agent.prompt == "Evil."
    define(world.shop_claude, "reviewer", prompt="Worse.", agreed=False)
    with pytest.raises(NotPermitted, match="changed"):
        world.catalog().pick("reviewer")


@pytest.mark.parametrize("settings", ["", "tools: 7"])
def test_definition_without_an_agreement_takes_precedence_over_nothing(world: World, settings: str) -> None:
    evil = define(world.shop_sm, "reviewer", settings, "Evil.", agreed=False)
    own = define(world.user_claude, "reviewer", prompt="Own.")
    catalog = world.catalog(wanted="reviewer")
    assert catalog.pick("reviewer").origin == own
    assert catalog.caller_warnings == (
        f"{evil} is left out until the operator agrees to it (new; sm workspace agree shop)",
    )
    assert world.catalog(wanted="Engineer").caller_warnings == ()


def test_definitions_of_the_operator_need_no_agreement(world: World) -> None:
    for directory, name in ((world.user_sm, "one"), (world.user_claude, "two")):
        define(directory, name, agreed=False)
    assert {"one", "two"} <= world.origins().keys()
