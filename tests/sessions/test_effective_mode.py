"""Where a session runs for want of a sandbox, and where it runs again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from sm.config import Config
from sm.core.models import OPERATOR, Caller, Session
from sm.core.sightings import Sighting
from sm.core.states import CallerKind, TrustLevel
from sm.errors import (
    EngineMissing,
    FallbackOver,
    ImageMissing,
    SandboxUnavailable,
    SandboxUnreachable,
    SmError,
)
from sm.sandboxes.base import Sandbox
from sm.sandboxes.docker.crashes import MAX, Crashes
from sm.sessions.effective_mode import TrustDecision, TrustDecisions
from tests.samples import session

DIRECT, SANDBOXED = TrustLevel.DIRECT, TrustLevel.SANDBOXED
MISSING = EngineMissing("no Docker engine runs: /s does not exist", "sudo systemctl start docker")
UNBUILT = ImageMissing("the engine has no image sm-sandbox", "sm sandbox build")


class OneAnswer:
    """A sandbox that is wanting for a reason, or there."""

    def __init__(self, error: SmError | None) -> None:
        self.error = error

    async def require_available(self, workspace: object) -> tuple[str, ...]:
        if self.error is not None:
            raise self.error
        return ("of the sandbox",)


def decisions(error: SmError | None, met: Sequence[Sighting] = (), **settings: str) -> TrustDecisions:
    config = Config.model_validate({"sandbox": settings})
    return TrustDecisions(config, cast(Sandbox, OneAnswer(error)), lambda: met)


async def decide(
    trust: TrustDecisions,
    *,
    asked: str | None = None,
    parent: Session | None = None,
    caller: Caller = OPERATOR,
) -> TrustDecision:
    return await trust.decide(caller, parent, None, asked, runs=False)


def crash_loop() -> SandboxUnavailable:
    crashes = Crashes()
    for _ in range(MAX):
        crashes.add(None)
    problem = crashes.problem(None)
    assert problem is not None
    return problem


@pytest.mark.parametrize("error", [MISSING, UNBUILT])
async def test_default_level_falls_back_where_there_never_was_a_sandbox(error: SandboxUnavailable) -> None:
    found = await decide(decisions(error))
    assert (found.level, found.mode) == (SANDBOXED, DIRECT)
    (warning,) = found.warnings
    assert error.message in warning and str(error.hint) in warning


async def test_fallback_for_want_of_an_image_names_the_command_that_builds_it() -> None:
    found = await decide(decisions(UNBUILT, [Sighting.ENGINE]))
    assert "sm sandbox build" in found.warnings[0]


@pytest.mark.parametrize(
    ("error", "met"),
    [
        (MISSING, [Sighting.ENGINE]),
        (UNBUILT, [Sighting.ENGINE, Sighting.IMAGE]),
        (crash_loop(), []),
        (SandboxUnreachable("the engine does not respond"), []),
        (SandboxUnavailable("the directory cannot be mounted"), []),
    ],
)
async def test_whatever_else_is_wrong_is_refused_with_a_way_out(
    error: SandboxUnavailable, met: list[Sighting]
) -> None:
    with pytest.raises(type(error)) as refused:
        await decide(decisions(error, met))
    assert refused.value.exit_code == 9
    assert "--trust direct" in str(refused.value.hint)


@pytest.mark.parametrize("error", [MISSING, UNBUILT])
async def test_level_that_somebody_asked_for_never_falls_back(error: SandboxUnavailable) -> None:
    with pytest.raises(type(error)):
        await decide(decisions(error), asked="sandboxed")
    with pytest.raises(type(error)):
        await decide(decisions(error, fallback="never"))
    with pytest.raises(type(error)):
        await decide(decisions(error), caller=Caller(CallerKind.BRIDGE, "telegram:1"))


async def test_child_of_a_session_that_fell_back_is_marked_and_runs_where_its_parent_runs() -> None:
    parent = session("0a0a0a0a")
    assert parent.fell_back
    inside = Caller(CallerKind.SESSION, parent.id)
    for error in (MISSING, None):
        found = await decide(decisions(error), parent=parent, caller=inside)
        assert (found.level, found.mode) == (SANDBOXED, DIRECT)
        assert "runs directly on this host" in found.warnings[0]
    with pytest.raises(EngineMissing):
        await decide(decisions(MISSING), parent=parent, caller=inside, asked="sandboxed")


async def test_child_of_a_direct_session_is_not_marked() -> None:
    parent = replace(session("0a0a0a0a"), trust_level=DIRECT)
    found = await decide(decisions(MISSING), parent=parent)
    assert found == TrustDecision(DIRECT, DIRECT)


@pytest.mark.parametrize("error", [MISSING, UNBUILT])
async def test_session_that_fell_back_runs_again_there_with_the_warning_of_its_spawn(
    error: SandboxUnavailable,
) -> None:
    trust = decisions(error)
    spawned = await decide(trust)
    assert await trust.again(session("0a0a0a0a"), None) == spawned.warnings


async def test_session_that_fell_back_does_not_run_again_on_the_host_when_there_is_a_sandbox() -> None:
    with pytest.raises(FallbackOver) as refused:
        await decisions(None).again(session("0a0a0a0a"), None)
    assert refused.value.exit_code == 9
    assert "sm restore 0a0a0a0a --trust direct" in str(refused.value.hint)


@pytest.mark.parametrize("error", [crash_loop(), SandboxUnreachable("no answer"), MISSING])
async def test_session_that_fell_back_is_refused_for_another_reason(error: SandboxUnavailable) -> None:
    with pytest.raises(type(error)) as refused:
        await decisions(error, [*Sighting]).again(session("0a0a0a0a"), None)
    assert "--trust direct" in str(refused.value.hint)


async def test_restored_session_of_a_sandbox_needs_it_and_a_direct_one_nothing() -> None:
    direct = replace(session("0a0a0a0a"), trust_level=DIRECT)
    assert await decisions(MISSING).again(direct, None) == ()
    sandboxed = replace(session("0a0a0a0a"), effective_mode=SANDBOXED)
    with pytest.raises(EngineMissing):
        await decisions(MISSING).again(sandboxed, None)
    assert await decisions(None).again(sandboxed, None) == ()
