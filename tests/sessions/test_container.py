"""Plans of sessions in containers: working directory, system prompt, MCP servers."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sm.config import Config
from sm.core.models import Session, SpawnRequest, Workspace
from sm.core.states import TrustLevel
from sm.equipment.grants import Grants
from sm.errors import InvalidPath
from sm.linux.file_threads import FileThreads
from sm.sessions.container import (
    contained_directory,
    contained_servers,
    place_sentences,
    unknown_program,
)
from tests.memory_files import path_on_disk
from tests.samples import AT, session

on_disk = path_on_disk
BOXED = replace(session("1a2b3c4d"), effective_mode=TrustLevel.SANDBOXED)


def config(**sandbox: Any) -> Config:
    return Config.model_validate({"sandbox": sandbox})


def shop(directory: Path, **sandbox: Any) -> Workspace:
    directory.mkdir(exist_ok=True)
    return Workspace("shop", str(directory), AT, sandbox=sandbox)


async def directory_of(
    settings: Config,
    directory: Path | str,
    workspace: Workspace | None = None,
    *,
    asked: bool = True,
    in_container: bool = False,
) -> tuple[str, tuple[str, ...]]:
    asking = replace(BOXED, working_dir=str(directory), workspace=workspace.slug if workspace else None)
    request = SpawnRequest("Sleeper", working_dir=str(directory) if asked else None)
    return await contained_directory(
        settings, asking, workspace, request, in_container=in_container, threads=FileThreads()
    )


# The working directory


async def test_session_without_workspace_works_in_its_scratch_directory(tmp_path: Path) -> None:
    place, (warning,) = await directory_of(config(), tmp_path / "my project", asked=False)
    assert place == "/scratch/1a2b3c4d"
    assert f"does not see {tmp_path}/my project" in warning
    assert f"sm workspace create NAME --working-dir '{tmp_path}/my project'" in warning


@pytest.mark.parametrize("directory", ["/", "/etc/ssl", "~", "~/.."])
async def test_warning_names_no_directory_that_no_container_may_see(directory: str) -> None:
    path = os.path.normpath(os.path.expanduser(directory))
    _, (warning,) = await directory_of(config(), path, asked=False)
    assert f"does not see {path}: " in warning
    assert warning.endswith("(sm workspace create NAME --working-dir PATH)")


async def test_child_in_the_same_container_gets_no_warning_about_its_directory() -> None:
    found = await directory_of(config(), "/scratch/99999999", asked=False, in_container=True)
    assert found == ("/scratch/1a2b3c4d", ())


@pytest.mark.parametrize("path", ["/etc", "/scratch/99999999", "/nowhere"])
async def test_requested_directory_outside_of_the_vault_is_refused(tmp_path: Path, path: str) -> None:
    for settings in (config(), config(vault=str(tmp_path))):
        with pytest.raises(InvalidPath, match=f"{path} is not visible in the container") as refusal:
            await directory_of(settings, path)
        assert refusal.value.exit_code == 2
        assert "sm workspace create NAME" in str(refusal.value.hint)


async def test_requested_directory_in_the_vault_or_a_mount_is_used(tmp_path: Path) -> None:
    for name in ("vault/notes", "data"):
        (tmp_path / name).mkdir(parents=True)
    settings = config(vault=f"{tmp_path}/vault", mounts=(f"{tmp_path}/data:ro",))
    for name in ("vault", "vault/notes", "data"):
        assert await directory_of(settings, tmp_path / name) == (f"{tmp_path}/{name}", ())


async def test_directory_of_a_workspace_is_used_without_links(tmp_path: Path) -> None:
    workspace = shop(tmp_path / "shop")
    (tmp_path / "shop" / "src").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "shop")
    for asked in ("shop/src", "link/src"):
        assert await directory_of(config(), tmp_path / asked, workspace) == (f"{tmp_path}/shop/src", ())


async def test_directory_outside_of_the_workspace_is_refused(tmp_path: Path) -> None:
    workspace = shop(tmp_path / "shop")
    (tmp_path / "shop" / "out").symlink_to(tmp_path)
    (tmp_path / "shopping").mkdir()
    refusals = set()
    for path in ("shopping", "shop/out", "nowhere", "shop/../nowhere"):
        with pytest.raises(InvalidPath, match="container of workspace shop") as refusal:
            await directory_of(config(), tmp_path / path, workspace, in_container=True)
        refusals.add(refusal.value.hint)
    assert len(refusals) == 1  # a caller in a container cannot find out which paths exist


async def test_missing_directory_in_the_workspace_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidPath, match="does not exist"):
        await directory_of(config(), tmp_path / "shop/src", shop(tmp_path / "shop"))


# The system prompt


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"working_dir": "/scratch/1a2b3c4d"},
            "Your working directory is your private scratch space. Files here are temporary.",
        ),
        (
            {"working_dir": "/srv/shop/src", "workspace": "shop"},
            "Your project directory is /srv/shop/src. You also have a private scratch space at /scratch/1a2b3c4d/ "
            "for temporary files.",
        ),
    ],
)
def test_agent_is_told_of_its_directories(changes: dict[str, Any], expected: str) -> None:
    place: Session = replace(BOXED, **changes)
    assert place_sentences(place) == expected


# MCP servers


async def servers_in(settings: Config, servers: dict[str, Any], *, image: set[str] | None = None) -> Grants:
    async def has_program(workspace: Workspace | None, program: str) -> bool:
        assert image is not None
        return program in image

    check = unknown_program if image is None else has_program
    return await contained_servers(settings, None, Grants(servers=servers), check)


async def test_server_without_its_program_in_the_image_is_left_out() -> None:
    servers = {"a": {"command": "python3"}, "b": {"command": "npx", "args": ["x"]}}
    grants = await servers_in(config(), servers, image={"python3"})
    assert grants.servers.keys() == {"a"}
    assert grants.warnings == ("MCP server b is left out: the image of the sandbox has no program npx",)
    assert (await servers_in(config(), servers)).servers == servers  # the image is not known


LOCAL = [
    "http://localhost:3333/mcp",
    "https://127.0.0.2/",
    "http://[::1]:80/x",
    "http://LocalHost./",
    "http://a.localhost",
]


@pytest.mark.parametrize("url", LOCAL)
async def test_server_on_this_machine_is_left_out_without_host_access(url: str) -> None:
    servers = {
        "here": {"type": "http", "url": url},
        "there": {"type": "http", "url": "https://localhost.example"},
    }
    grants = await servers_in(config(), servers)
    assert grants.servers.keys() == {"there"}
    assert "MCP server here is left out: it runs on this machine" in grants.warnings[0]


async def test_server_on_this_machine_is_reached_by_its_name_with_host_access() -> None:
    servers = {"here": {"type": "http", "url": "http://u:p@localhost:3333/mcp?a=b", "headers": {"x": "y"}}}
    grants = await servers_in(config(host_access=True), servers)
    assert grants.servers == {
        "here": {**servers["here"], "url": "http://u:p@host.docker.internal:3333/mcp?a=b"}
    }
    assert grants.warnings == ()


async def test_servers_with_a_url_are_left_out_without_a_network() -> None:
    servers = {"a": {"command": "python3"}, "b": {"type": "http", "url": "https://b.example"}}
    grants = await servers_in(config(network="none"), servers)
    assert grants.servers.keys() == {"a"}
    assert "no network" in grants.warnings[0]
