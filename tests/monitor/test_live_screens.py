"""Live screens of terminals that fail."""

import logging

import pytest

from sm.monitor.live_screens import LiveScreens
from tests.waits import NEVER_S


class FailsOnce:
    """Terminals with a defect in the second capture."""

    def __init__(self) -> None:
        self.captures = 0

    async def capture_styled(self, name: str) -> list[str]:
        self.captures += 1
        if self.captures == 2:
            raise ValueError("a defect")
        return [f"capture {self.captures}"]


async def test_screen_is_captured_again_after_a_defect(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sm.monitor.live_screens._EVERY_S", 0.01)
    monkeypatch.setattr("sm.monitor.live_screens._PAUSE_AFTER_FAILURE_S", 0.01)
    screens = LiveScreens(FailsOnce())  # type: ignore[arg-type]  # has only what screens need
    with caplog.at_level(logging.ERROR):
        async with screens.looking("x") as screen:
            assert await screen.wait_until(lambda: bool(screen.rows(1)), NEVER_S)
            assert screen.rows(1)[0].runs[0][0].startswith("capture ")
    assert [record.message for record in caplog.records] == ["failed to capture a screen"]
