"""The MCP server that sm gives to its agents, and servers of others with its name."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sm.core.models import IDENTITY, Capabilities, Workspace
from sm.core.states import TrustLevel
from sm.equipment.grants import Grants
from tests import samples
from tests.equipment.test_grants import Team, identity, in_dir, stdio

LEFT_OUT = "MCP server sm of {} is left out: sm gives its agents a server of this name"


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(tmp_path)


def granted(
    team: Team,
    *,
    inside: bool = True,
    strict: bool = False,
    mode: TrustLevel = TrustLevel.DIRECT,
    mcps: tuple[str, ...] | None = None,
) -> Grants:
    """The grants of a session that gets the server of sm."""
    session = in_dir("1a2b3c4d", str(team.shop), mode, "shop" if inside else None)
    workspace = Workspace("shop", str(team.shop), samples.AT, None, Capabilities(mcps=mcps), strict)
    environment = {"HOME": str(team.home)}
    grants = asyncio.run(
        team.granter.grants(
            session, workspace if inside else None, team.provider, environment, has_own_server=True
        )
    )
    return grants.with_own_server(team.provider.own_server("/s/bin/sm"))


def servers(grants: Grants) -> dict[str, Any]:
    config = grants.mcp_config(identity())
    assert config is not None
    found: dict[str, Any] = json.loads(config)["mcpServers"]
    return found


OWN = {"command": "/s/bin/sm", "args": ["mcp"], "alwaysLoad": True, "env": dict(identity())}


def test_own_server_has_the_identity_of_the_session(team: Team) -> None:
    assert servers(granted(team, inside=False)) == {"sm": OWN}
    assert set(identity()) == set(IDENTITY)


@pytest.mark.parametrize("mode", TrustLevel)
def test_own_server_is_given_when_nothing_else_is(team: Team, mode: TrustLevel) -> None:
    team.user(users=stdio())
    team.project(probe=stdio())
    grants = granted(team, strict=True, mode=mode, mcps=())
    assert servers(grants) == {"sm": OWN}
    assert grants.granted.strict_mcps
    assert grants.warnings == ()


def test_own_server_leaves_the_servers_of_others(team: Team) -> None:
    team.user(users=stdio())
    team.project(probe=stdio())
    grants = granted(team)
    assert set(servers(grants)) == {"users", "probe", "sm"}
    assert not grants.granted.strict_mcps


@pytest.mark.parametrize("inside", [True, False])
def test_server_of_this_name_is_left_out_of_every_file_with_a_warning(team: Team, inside: bool) -> None:
    above, above_file = team.shop.parent, team.shop.parent / ".mcp.json"
    team.user(sm=stdio("user"), users=stdio())
    team.project(sm=stdio("shop"))
    team.project(above, sm=stdio("above"))
    grants = granted(team, inside=inside)
    assert servers(grants)["sm"] == OWN
    assert "sm" in grants.granted.mcps_off
    expected = [LEFT_OUT.format(path) for path in (team.user_file, team.shop_file, above_file)]
    assert sorted(grants.warnings) == sorted(expected)


def test_server_of_this_name_needs_no_agreement(team: Team) -> None:
    team.project(agreed=False, sm=stdio())
    assert granted(team).warnings == (LEFT_OUT.format(team.shop_file),)


def test_capability_may_name_the_own_server(team: Team) -> None:
    assert granted(team, mcps=("sm",)).warnings == ()


def test_unreadable_project_file_does_not_stop_a_session_without_a_workspace(team: Team) -> None:
    team.shop_file.write_text("{")
    assert servers(granted(team, inside=False)) == {"sm": OWN}


def test_session_without_the_own_server_keeps_the_server_of_that_name(team: Team) -> None:
    team.user(sm=stdio("user"))
    grants = team.grants()
    assert servers(grants)["sm"]["args"] == ["user"]
    assert (grants.granted.own_server, grants.warnings) == (False, ())
