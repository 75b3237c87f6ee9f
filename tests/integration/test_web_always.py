"""The action "Always allow this" of the page, in a real browser: the rule is shown before it is written."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser import AXE, Visitor, shared_chromium, skip_without
from tests.fixtures import context_fixture
from tests.integration.played_claude import Stage
from tests.web_server import WebServer, web_server

pytestmark = pytest.mark.browser

LINE = '- {"agent_type": "Plain", "allow": "Bash(npm test)"}'

browser = context_fixture("module", shared_chromium.use)
stage = context_fixture("module", Stage)


@pytest.fixture(scope="module")
def server(browser: Browser, stage: Stage) -> Iterator[WebServer]:
    """After `browser`, so that a missing browser is found first."""
    with web_server(stage, "--scope", "all") as server:
        yield server


@pytest.fixture(scope="module")
def visitor(browser: Browser, server: WebServer) -> Visitor:
    return Visitor(browser, server)


def test_rule_is_shown_and_written_after_a_yes(stage: Stage, visitor: Visitor) -> None:
    skip_without(AXE.exists(), "axe-core")
    dialog = stage.agent().open_dialog("Bash", {"command": "npm test"})
    dialog.start_wait()
    rules = stage.config.parent / "rules.yaml"
    with visitor.tab() as tab:
        tab.request(dialog.name).focus()
        tab.press("L")
        tab.shows(LINE, "every session of type Plain", f"sm approve {dialog.name} --always")
        assert tab.violations() == []
        tab.press("Escape")
        tab.hides(LINE)
        assert not rules.exists()
        tab.request(dialog.name).focus()
        tab.press("L")
        tab.find('[data-act="do-always"]').click()
        dialog.take_decision()
        tab.until(lambda: dialog.name not in tab.requests(), "the request is answered")
    assert rules.read_text().splitlines()[1:] == [LINE]
