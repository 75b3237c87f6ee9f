"""The team that tests share: its world ends also when its daemon has failed."""

from pathlib import Path

import pytest

from tests.sim.team import PlayedTeam

pytestmark = pytest.mark.simulation


def test_world_of_a_team_ends_when_the_log_of_its_daemon_has_an_error() -> None:
    with pytest.raises(AssertionError, match="Traceback"), PlayedTeam() as team:
        Path(team.instance.state, "log", "daemon.log").write_text("Traceback\n")
    with PlayedTeam() as again:
        assert again.client("parent").get("/v1/me")["session_id"] == again.ids["parent"]
