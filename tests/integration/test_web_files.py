"""Files that a person sends with a message or a task, in a real browser with a real server, daemon and tmux."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator

from sm.client.http import Client
from tests.browser import Tab, Visitor, shared_chromium
from tests.fixtures import context_fixture
from tests.integration.played_claude import Agent, Stage
from tests.web.test_attached_files import DROP
from tests.web_server import web_server

pytestmark = pytest.mark.browser

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 48

browser = context_fixture("module", shared_chromium.use)
stage = context_fixture("module", Stage)


@pytest.fixture(scope="module")
def visitor(browser: Browser, stage: Stage) -> Iterator[Visitor]:
    with web_server(stage, "--scope", "all") as server:
        yield Visitor(browser, server)


def has(tab: Tab, *chips: str) -> None:
    """Wait until these files are shown, each with its state."""
    script = "all => all.map((one) => `${one.querySelector('.file-name').textContent} ${one.dataset.state}`)"
    tab.until(lambda: tab.find(".file").evaluate_all(script) == [*chips], f"the files {chips}")


def messages(stage: Stage, agent: Agent) -> list[str]:
    """The texts of the messages to an agent, without what begins it."""
    found: list[dict[str, Any]] = Client(str(stage.socket)).get("/v1/messages", {"session": agent.id})
    return [message["text"] for message in found]


def content_of(line: str) -> bytes:
    """The file that a line of sm names."""
    named = re.fullmatch(r"\[sm\] file \d: (/\S+/[^/]+) \(image/png, 12 kB\)", line)
    assert named is not None, line
    return Path(named[1]).read_bytes()


def composer(tab: Tab) -> Locator:
    form = tab.find(".compose")
    tab.until(lambda: form.locator('[data-act="send"]').count() == 1, "a message can be sent")
    return form


def test_message_ends_with_a_line_for_each_file_that_was_attached(stage: Stage, visitor: Visitor) -> None:
    agent, other = stage.agent(), stage.agent()
    with visitor.tab(place=f"#/s/{agent.id}/messages") as tab:
        form = composer(tab)
        tab.page.route("**/api/v1/files?*", lambda route: route.abort(), times=1)
        form.evaluate(DROP, [["shot.png", "image/png", list(PNG)]])
        has(tab, "shot.png failed")
        form.locator('[data-act="add-file"]').set_input_files(
            {"name": "my plan.png", "mimeType": "image/png", "buffer": PNG[::-1]}
        )
        has(tab, "shot.png failed", "my plan.png done")
        form.locator('[data-act="upload-again"]').click()
        has(tab, "shot.png done", "my plan.png done")
        form.locator("textarea").fill("what is wrong here?")
        tab.follows(lambda: stage.sm("note", "x" * 20, env=stage.as_session(agent.id)))
        has(tab, "shot.png done", "my plan.png done")
        assert form.locator("textarea").input_value() == "what is wrong here?"

        # Somebody removes an upload: the message is refused, and nothing that was entered is lost.
        kept = tab.page.evaluate("id => JSON.parse(localStorage.getItem('sm.files.' + id))", agent.id)
        Client(str(stage.socket)).text("DELETE", f"/v1/files/{kept[1]['id']}")
        form.locator('[data-act="send"]').click()
        has(tab, "shot.png done", "my plan.png failed")
        tab.shows("no such file", "it is no longer kept")
        assert form.locator("textarea").input_value() == "what is wrong here?"
        form.locator('[data-act="upload-again"]').click()
        has(tab, "shot.png done", "my plan.png done")
        form.locator('[data-act="send"]').click()
        has(tab)
        tab.until(lambda: form.locator("textarea").input_value() == "", "an empty field")

        tab.open(f"#/s/{other.id}/messages")
        composer(tab).evaluate(DROP, [["for the other.png", "image/png", list(PNG)]])
        has(tab, "for the other.png done")
    (text,) = [text for text in messages(stage, agent) if "wrong" in text]
    words, *lines = text.split("\n")
    assert words == "what is wrong here?"
    assert [content_of(line) for line in lines if line] == [PNG, PNG[::-1]]
    stage.sm("kill", agent.id, other.id, "--force")


def test_agent_starts_with_the_files_of_its_task(stage: Stage, visitor: Visitor) -> None:
    taken = stage.work / "taken"  # the task of a shell is its script
    with visitor.tab() as tab:
        start = tab.find('.tools [data-act="spawn"]')
        tab.until(lambda: start.get_attribute("aria-disabled") == "false", "a start is possible")
        start.click()
        form = tab.find('[data-form="spawn"]')
        tab.until(lambda: form.locator('[name="agent_type"] option[value="Sh"]').count() == 1, "the types")
        form.locator('[name="agent_type"]').select_option("Sh")
        form.locator('[name="working_dir"]').fill(str(stage.work))
        form.locator('[name="name"]').fill("filed")
        form.evaluate(DROP, [["shot.png", "image/png", list(PNG)]])
        has(tab, "shot.png done")
        form.locator('[data-act="do-spawn"]').click()
        tab.until(lambda: "Write what the agent does" in form.inner_text(), "the task is missing")
        form.locator('[name="prompt"]').fill(f"cat > {taken} << END")
        tab.press("Escape")
        tab.until(lambda: form.count() == 0, "the sheet is closed")
        tab.page.reload()
        tab.is_in_phase("live")
        tab.until(lambda: start.get_attribute("aria-disabled") == "false", "a start is possible")
        start.click()
        has(tab, "shot.png done")
        tab.until(lambda: "Starts Sh" in form.inner_text(), "the answer of the daemon")
        form.locator('[data-act="do-spawn"]').click()
        tab.until(lambda: form.count() == 0, "the end of the sheet")
        start.click()
        has(tab)
        tab.press("Escape")
    stage.ended("sh-filed")
    assert [content_of(line) for line in taken.read_text().split("\n") if line] == [PNG]
