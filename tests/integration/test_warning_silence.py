"""The warning of an agent whose process works while no source reports anything. Played claude."""

from tests.fixtures import context_fixture
from tests.instance import until
from tests.integration.played_claude import BOX, Stage

SETTINGS = """
daemon: {ignore_evidence: [screen, title]}
warnings: {no_progress: {do: off}, memory: {do: off}, silent: {after: 2, limit: 2}}
"""
BUSY = "until [ -e ~/rest ]; do :; done\n"

stage = context_fixture("module", Stage, SETTINGS, BOX + BUSY)


def test_silent_agent_that_uses_the_processor_is_told_once_until_it_rests(stage: Stage) -> None:
    agent = stage.agent("Plain")
    agent.send_event("UserPromptSubmit", prompt="work", prompt_id=f"{agent.id}-1")
    stage.in_status(agent.id, "running")

    def kinds() -> list[str]:
        return [w["kind"] for w in stage.session(agent.id)["warnings"]]

    until(lambda: kinds() == ["silent"], "the silence is found")
    (found,) = stage.session(agent.id)["warnings"]
    assert found["limit"] == 2
    assert found["evidence"].startswith("no source has reported for ")
    assert found["evidence"].endswith("% of a core")
    stage.restart()
    until(
        lambda: str(stage.get("/v1/messages")).count(f"({agent.id}) reports nothing") == 1,
        "the operator is told",
    )
    assert kinds() == ["silent"]
    (stage.home / "rest").touch()
    until(lambda: kinds() == [], "the warning has ended")
    events = stage.json("events", agent.id, "--type", "warning")
    assert [e["metadata"]["ended"] for e in events if e["metadata"].get("kind") == "silent"] == [False, True]
    assert str(stage.get("/v1/messages")).count(f"({agent.id}) reports nothing") == 1
