"""Finding agent types: whose definition counts, and what an agent's own files cannot do."""

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sm.capabilities import directories
from sm.capabilities.agent_types import AgentType, AgentTypes, Catalog, check_name
from sm.capabilities.directories import Directory
from sm.config import AgentConfig, Config, Definition, read_definition
from sm.config.model import Claude, Command, DefaultCapabilities
from sm.core.models import Capabilities, Workspace
from sm.errors import ConfigError, ExternalError, UnknownAgentType
from sm.paths import Places
from sm.providers import PROVIDERS
from tests import samples
from tests.load import scaled


class World:
    """A workspace, a home with claude's directory, and the directory of config.yaml."""

    def __init__(self, path: Path, **config: Any) -> None:
        self.shop, self.home, self.sm = path / "shop", path / "home", path / "sm"
        self.of_sm = self.shop / ".sm" / "agents"
        self.of_claude = self.shop / ".claude" / "agents"
        self.own = self.sm / "agents"
        self.own_of_claude = self.home / ".claude" / "agents"
        for directory in (self.of_sm, self.of_claude, self.own, self.own_of_claude):
            directory.mkdir(parents=True)
        config.setdefault(
            "claude", Claude(agent_configs={"Engineer": AgentConfig(model="sonnet", description="codes")})
        )
        config.setdefault("commands", {"Sh": Command(command=("sh",))})
        made = Config(**config)
        self.types = AgentTypes(
            made,
            Places(str(self.sm / "config.yaml"), str(self.sm / "state")),
            {name: make(made) for name, make in PROVIDERS.items()},
        )

    def workspace(self, *agents: str) -> Workspace:
        given = Capabilities(agents=agents or None)
        return Workspace("shop", str(self.shop), samples.AT, capabilities=given)

    async def ask(
        self,
        *agents: str,
        anywhere: bool = False,
        environment: Mapping[str, str] | None = None,
        wanted: str | None = None,
    ) -> Catalog:
        async with asyncio.timeout(scaled()):
            return await self.types.found(
                None if anywhere else self.workspace(*agents),
                {"HOME": str(self.home)} if environment is None else environment,
                wanted=wanted,
            )

    def found(self, *agents: str, **options: Any) -> Catalog:
        return asyncio.run(self.ask(*agents, **options))

    def origins(self, **options: Any) -> dict[str, str]:
        return {each.name: each.origin for each in self.found(**options).usable}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def define(directory: Path, name: str, settings: str = "", prompt: str = "Do it.") -> str:
    path = directory / f"{name}.md"
    path.write_text(f"---\n{settings}\n---\n{prompt}\n")
    return str(path)


def only(catalog: Catalog, name: str) -> AgentType:
    (found,) = [each for each in catalog.types if each.name == name]
    return found


# ------------------------------------------------------------------------------------------------------ whose counts


def test_configured_types_are_there_without_any_file(world: World) -> None:
    assert world.origins() == {"Engineer": "config", "Sh": "config"}
    engineer, sh = world.found().types
    assert (engineer.provider, engineer.agent.model) == ("claude", "sonnet")
    assert (sh.provider, sh.agent) == ("command", AgentConfig())


def test_first_directory_counts_and_the_others_are_told(world: World) -> None:
    directories = (world.of_sm, world.of_claude, world.own, world.own_of_claude)
    paths = [define(directory, "reviewer", f"model: m{n}") for n, directory in enumerate(directories)]
    for n, path in enumerate(paths):
        found = [each for each in world.found().types if each.name == "reviewer"]
        assert [each.origin for each in found] == paths[n:]
        assert [each.shadowed_by for each in found] == [None, *[path] * (len(paths) - n - 1)]
        assert world.found().pick("reviewer").agent.model == f"m{n}"
        os.unlink(path)
    assert "reviewer" not in world.origins()


@pytest.mark.parametrize("name", ["Engineer", "engineer", "Sh", "SH"])
def test_no_file_replaces_what_is_configured_however_it_is_spelt(world: World, name: str) -> None:
    for directory in (world.of_sm, world.own):
        define(directory, name, "model: opus")
    assert world.origins() == {"Engineer": "config", "Sh": "config"}
    assert {each.shadowed_by for each in world.found().types} == {None, "config"}


def test_definitions_of_a_workspace_are_for_its_sessions_only(world: World) -> None:
    define(world.of_sm, "reviewer")
    mine = define(world.own, "writer")
    assert world.origins(anywhere=True) == {"Engineer": "config", "Sh": "config", "writer": mine}


def test_directory_of_claude_is_that_of_the_session(world: World, tmp_path: Path) -> None:
    define(world.own_of_claude, "at-home")
    other = tmp_path / "other" / "agents"
    other.mkdir(parents=True)
    define(other, "elsewhere")
    there = {"HOME": str(world.home), "CLAUDE_CONFIG_DIR": str(other.parent)}
    assert "at-home" in world.origins()
    assert "elsewhere" in world.origins(environment=there)
    assert "at-home" not in world.origins(environment=there)
    for nowhere in ({}, {"CLAUDE_CONFIG_DIR": "relative"}, {"HOME": ""}):
        assert set(world.origins(environment=nowhere)) == {"Engineer", "Sh"}


def test_environment_that_is_configured_for_claude_counts(tmp_path: Path) -> None:
    other = tmp_path / "other" / "agents"
    other.mkdir(parents=True)
    define(other, "elsewhere")
    world = World(tmp_path, claude=Claude(env={"CLAUDE_CONFIG_DIR": str(other.parent)}))
    assert "elsewhere" in world.origins()


def test_operators_directory_inside_a_workspace_is_one_that_agents_can_write_to(world: World) -> None:
    define(world.of_claude, "reviewer", "spawnable: true")
    found = world.found(environment={"HOME": str(world.shop)})
    assert not only(found, "reviewer").agent.spawnable


def test_spawnable_is_for_the_operator_to_say(world: World) -> None:
    for n, directory in enumerate((world.of_sm, world.of_claude, world.own, world.own_of_claude)):
        define(directory, f"agent{n}", "spawnable: true")
    found = world.found()
    assert [only(found, f"agent{n}").agent.spawnable for n in range(4)] == [False, False, True, True]
    assert "`spawnable` has no effect" in only(found, "agent0").warnings[0]
    assert only(found, "agent2").warnings == ()


def test_agent_that_could_not_report_is_warned_of(world: World) -> None:
    define(world.own, "reader", "tools: Read")
    define(world.own, "worker", "tools: Read, Bash")
    assert "it cannot report" in only(world.found(), "reader").warnings[0]
    assert only(world.found(), "worker").warnings == ()


# ---------------------------------------------------------------------------------------------------- what is given


def test_workspace_gives_what_its_setting_names(world: World) -> None:
    define(world.of_sm, "reviewer")
    found = world.found("reviewer", "Sh")
    assert {each.name for each in found.usable} == {"reviewer", "Sh"}
    assert found.pick("reviewer").name == "reviewer"
    with pytest.raises(UnknownAgentType, match="unknown agent type Engineer") as caught:
        found.pick("Engineer")
    assert caught.value.hint == (
        "workspace shop does not give it to its sessions: sm workspace set shop --agents NAMES"
    )
    # What a session was started as stays known: its briefing is made again when it is restored.
    known = found.known("Engineer")
    assert known is not None
    assert known.agent.model == "sonnet"


def test_sessions_without_a_workspace_are_given_what_is_configured(tmp_path: Path) -> None:
    world = World(tmp_path, default_capabilities=DefaultCapabilities(agents=("Sh",)))
    assert set(world.origins(anywhere=True)) == {"Sh"}
    assert set(world.origins()) == {"Engineer", "Sh"}
    with pytest.raises(UnknownAgentType) as caught:
        world.found(anywhere=True).pick("Engineer")
    assert "default_capabilities.agents" in str(caught.value.hint)


# ------------------------------------------------------------------------------------------------------- what it says


def test_unknown_type_is_answered_with_one_that_is_spelt_alike(world: World) -> None:
    define(world.of_sm, "reviewer")
    for name, hint in (("engineer", "did you mean Engineer?"), ("Reviewr", "did you mean reviewer?")):
        with pytest.raises(UnknownAgentType) as caught:
            world.found().pick(name)
        assert caught.value.hint == hint
    with pytest.raises(UnknownAgentType) as caught:
        world.found().pick("zzz")
    assert str(caught.value.hint).startswith("known are: Engineer, Sh, reviewer; ")


def test_broken_file_is_told_and_breaks_nothing_else(world: World) -> None:
    path = define(world.of_sm, "broken", "model: -x\nspawnable: 5")
    define(world.own, "broken", "model: opus")
    define(world.of_sm, "reviewer")
    found = world.found()
    assert {each.name for each in found.usable} == {"Engineer", "Sh", "reviewer"}
    with pytest.raises(ConfigError) as caught:
        found.pick("broken")
    assert caught.value.message == (
        "agent type broken cannot be used:\n"
        f"{path}:2:8: model: is no name of a model: opus, sonnet, haiku, or a full name\n"
        f"{path}:3:12: spawnable: must be true or false, and is 5"
    )
    (second,) = [each for each in found.types if each.shadowed_by == path]
    assert second.problem is None


def test_changed_file_is_seen_at_once(world: World) -> None:
    path = Path(define(world.of_sm, "reviewer", "model: aaaa"))
    for model in ("bbbb", "cccc", "dddd"):
        before = path.stat()
        path.write_text(
            path.read_text().replace(
                f"model: {world.found().pick('reviewer').agent.model}", f"model: {model}"
            )
        )
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as within one tick of a coarse clock
        assert world.found().pick("reviewer").agent.model == model
    path.unlink()
    assert "reviewer" not in world.origins()


def test_text_that_is_as_before_is_parsed_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(define(world.of_sm, "reviewer", "model: opus"))
    parsed: list[str] = []

    def parse(content: bytes, name: str, providers: Sequence[str]) -> Definition:
        parsed.append(name)
        return read_definition(content, name, providers)

    monkeypatch.setattr(directories, "read_definition", parse)
    for _ in range(3):
        path.touch()
        assert world.found().pick("reviewer").agent.model == "opus"
    assert parsed == ["reviewer"]


# -------------------------------------------------------------------------------- what an agent may have put there


@pytest.mark.parametrize(
    "name",
    ["", "../x", "a/b", "a\0b", "a" * 65, ".", "..", "-x", "a.md", "a b", "ä", "a\n", "/etc/passwd", "*"],
)
def test_name_that_could_be_a_path_is_refused_before_anything_is_looked_at(name: str) -> None:
    with pytest.raises(UnknownAgentType):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "A" * 64, "general-purpose", "x_1"])
def test_other_names_are_looked_for(name: str) -> None:
    check_name(name)


def test_number_of_too_many_digits_is_a_mistake_of_its_own_file(world: World) -> None:
    for name, number in (("broken", "0x" + "f" * 8000), ("sixty", "1" + ":1" * 4000)):
        define(world.of_sm, name, f"name: {number}")
    define(world.of_sm, "reviewer")
    found = world.found()
    for name in ("broken", "sixty"):
        assert "too many digits" in str(only(found, name).problem)
    assert found.pick("reviewer").usable


def test_file_that_cannot_be_read_for_any_reason_breaks_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(content: bytes, name: str, providers: Sequence[str]) -> Definition:
        if name == "broken":
            raise RecursionError("a bug")
        return read_definition(content, name, providers)

    monkeypatch.setattr("sm.capabilities.directories.read_definition", broken)
    define(world.of_sm, "broken", "model: opus")
    define(world.of_sm, "reviewer")
    found = world.found()
    assert only(found, "broken").problem == "1:1: cannot be understood: an error of sm (sm daemon logs)"
    assert found.pick("reviewer").usable
    assert ["definition could not be read" in each.message for each in caplog.records] == [True]
    assert "model: opus" not in caplog.text


def test_settings_of_one_directory_are_read_up_to_a_bound(world: World) -> None:
    for n in range(12):
        define(world.of_sm, f"agent{n:02}", f"description: {'a' * 8000}")
    (world.of_sm / "unclosed.md").write_text("---\n" + "a: b\n" * 1600)
    define(world.own, "mine", "description: mine")
    for _ in range(2):  # also when some of them need not be read again
        found = world.found()
        read = [only(found, f"agent{n:02}").problem is None for n in range(12)]
        assert read == [True] * 8 + [False] * 4
        assert only(found, "agent08").problem == (
            "1:1: is not read: with it the settings in this directory are longer than 65,536 characters"
        )
        assert only(found, "mine").usable
    for n in range(4):
        (world.of_sm / f"agent{n:02}.md").unlink()
    found = world.found()
    assert all(only(found, f"agent{n:02}").problem is None for n in range(4, 12))


class Held:
    """Holds up the reading of definitions whose name begins with `held`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._content = directories._content
        monkeypatch.setattr(directories, "_content", self._read)
        self._monkeypatch = monkeypatch
        self.within_s = 0.0
        self.limit(0.5)

    def limit(self, within_s: float) -> None:
        """How long each caller waits for the files from now on. A short limit may end before anything was read."""
        self.within_s = within_s
        self._monkeypatch.setattr("sm.capabilities.agent_types._READ_WITHIN_S", within_s)
        self._monkeypatch.setattr("sm.capabilities.agent_types._BRIEFING_WITHIN_S", within_s)

    def _read(self, directory: Directory, descriptor: int, file_name: str) -> bytes | str | None:
        name = file_name.removesuffix(".md")
        self.read.append(name)
        self.begun.set()
        if name.startswith("held"):
            assert self.go_on.wait(scaled())
        return self._content(directory, descriptor, file_name)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    made = Held(monkeypatch)
    yield made
    made.go_on.set()


def test_many_who_ask_at_once_share_what_is_read(world: World, held: Held) -> None:
    held.limit(scaled())  # nobody gives up
    define(world.of_sm, "held1")

    async def ask() -> None:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(world.ask())
            await asyncio.to_thread(held.begun.wait, scaled())
            define(world.of_sm, "later")
            others = [group.create_task(world.ask()) for _ in range(20)]
            for _ in range(10):
                await asyncio.sleep(0)  # each of them runs up to where it waits
            held.go_on.set()
        assert "later" not in {each.name for each in first.result().types}
        for other in others:  # what was there when they asked
            assert only(other.result(), "later").usable

    asyncio.run(ask())
    assert held.read.count("held1") == 2


def test_who_gives_up_waiting_leaves_one_read_behind_and_not_one_each(world: World, held: Held) -> None:
    define(world.of_sm, "held1")

    async def ask() -> None:
        held.limit(scaled())
        first = asyncio.create_task(world.ask())
        assert await asyncio.to_thread(held.begun.wait, scaled())
        held.limit(0.5)
        asked = await asyncio.gather(*(world.ask() for _ in range(8)), return_exceptions=True)
        assert {type(each) for each in asked} == {ExternalError}
        first.cancel()  # the first caller gives up too
        await asyncio.wait([first])
        assert held.read == ["held1"]
        assert sum(each.name.startswith("sm-definitions") for each in threading.enumerate()) <= 2
        held.limit(scaled())
        other = World(world.shop / "elsewhere")
        define(other.of_sm, "reviewer")
        workspace = Workspace("other", str(other.shop), samples.AT)
        found = await world.types.found(workspace, {"HOME": str(other.home)})
        assert found.pick("reviewer").usable
        held.go_on.set()

    asyncio.run(ask())


def test_configured_type_does_not_wait_for_files(world: World, held: Held) -> None:
    define(world.of_sm, "held1")
    define(world.own, "mine")

    async def ask() -> None:
        found = await world.ask(wanted="Engineer")
        assert found.pick("Engineer").agent.model == "sonnet"
        assert found.unread == (
            "the agent types that files define are not told to it: "
            f"their directories do not answer within {held.within_s:g} s",
        )
        command = await world.ask(wanted="Sh")
        assert command.pick("Sh").provider == "command"
        assert command.unread == ()
        for wanted in ("held1", "mine", "engineer", None):
            with pytest.raises(ExternalError):
                await world.ask(wanted=wanted)
        held.limit(scaled())
        held.go_on.set()
        assert (await world.ask(wanted="held1")).pick("held1").usable
        assert (await world.ask(wanted="Engineer")).unread == ()

    asyncio.run(ask())


def test_type_that_is_not_given_is_refused_without_waiting_for_files(world: World, held: Held) -> None:
    define(world.of_sm, "held1")
    with pytest.raises(UnknownAgentType):
        world.found("Sh", wanted="Engineer").pick("Engineer")
    held.go_on.set()


def test_names_that_nothing_has_are_told_with_the_nearest(world: World) -> None:
    define(world.of_sm, "reviewer")
    define(world.own, "broken", "model: -x")
    found = world.found("reviewer")
    assert found.unmatched(("Engineer", "Sh", "reviewer", "broken")) == ()
    assert found.unmatched(("Engineeer", "engineer", "zzz")) == (
        "there is no agent type Engineeer now; did you mean Engineer?",
        "there is no agent type engineer now; did you mean Engineer?",
        "there is no agent type zzz now",
    )


def test_named_pipe_holds_nobody_up(world: World) -> None:
    os.mkfifo(world.of_sm / "pipe.md")
    define(world.of_sm, "reviewer")
    os.mkfifo(world.own / "mine.md")
    before = threading.active_count()
    found = world.found()
    assert only(found, "pipe").problem == "1:1: is not a file"
    assert only(found, "mine").problem == "1:1: is not a file"
    assert found.pick("reviewer").usable
    assert threading.active_count() <= before + 2


def test_link_out_of_a_workspace_leaks_nothing(world: World, tmp_path: Path) -> None:
    secret = define(tmp_path, "secret", "description: SECRET", "SECRET")
    os.symlink(secret, world.of_sm / "leak.md")
    os.symlink("missing", world.of_sm / "dangling.md")
    os.symlink(secret, world.own / "mine.md")
    found = world.found()
    assert only(found, "leak").problem == (
        "1:1: cannot be read: links are not followed in the directory of a workspace"
    )
    assert only(found, "leak").agent == AgentConfig()
    assert only(found, "dangling").problem is not None
    assert only(found, "mine").agent.prompt == "SECRET"  # dotfiles are links as a rule


@pytest.mark.parametrize("linked", [".sm", ".sm/agents", ".claude", ".claude/agents"])
def test_directory_that_is_a_link_is_not_entered(world: World, tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "agents").mkdir(parents=True)
    define(elsewhere, "leak")
    define(elsewhere / "agents", "leak")
    path = world.shop / linked
    path.rename(tmp_path / "away")
    path.symlink_to(elsewhere)
    found = world.found()
    assert "leak" not in {each.name for each in found.types}
    (warning,) = found.warnings
    assert "links are not followed" in warning


def test_own_directories_may_be_links(world: World, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    world.own.rename(dotfiles)
    world.own.symlink_to(dotfiles)
    define(dotfiles, "writer")
    assert "writer" in world.origins()


def test_huge_files_many_files_and_odd_ones(world: World) -> None:
    (world.of_sm / "huge.md").write_bytes(b"---\n---\n" + b"a" * 70_000)
    with open(world.of_sm / "sparse.md", "wb") as file:
        file.truncate(1 << 40)
    (world.of_sm / "directory.md").mkdir()
    (world.of_sm / "notes.txt").write_text("nothing")
    (world.of_sm / "my agent.md").write_text("nothing")
    (world.of_sm / ".md").write_text("nothing")
    (world.of_sm / os.fsdecode(b"\xff.md")).write_text("nothing")
    found = world.found()
    assert only(found, "huge").problem == only(found, "sparse").problem == "1:1: is larger than 64 KiB"
    assert only(found, "directory").problem == "1:1: is not a file"
    (warning,) = found.warnings
    assert "my agent.md" in warning
    warning.encode()
    for n in range(150):
        define(world.of_claude, f"agent{n:03}")
    found = world.found()
    assert sum(each.origin.startswith(str(world.of_claude)) for each in found.types) == 100
    assert any("150 definitions: the first 100 count" in each for each in found.warnings)


def test_what_cannot_be_read_is_told(world: World) -> None:
    world.of_sm.rmdir()
    world.of_sm.write_text("no directory")
    (warning,) = world.found().warnings
    assert warning.startswith(f"{world.of_sm} cannot be read: ")
    world.of_sm.unlink()
    world.shop.rename(world.shop.with_name("gone"))
    assert world.found().warnings == ()
