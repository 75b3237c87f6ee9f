"""The README and the guide: each command in them exists, and a test types each page."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sm.cli.group import sm
from tests.pages import Command, steps

GUIDE = Path("docs/guide")
PAGES = [Path("README.md"), *sorted(GUIDE.glob("*.md"))]
README_LINES_MAX = 150


def inline_commands(page: Path) -> Iterator[str]:
    """The text of every `sm ...` outside of blocks."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for found in re.findall(r"`([^`]+)`", prose):
        text = " ".join(found.split())
        if text.startswith("sm "):
            yield text


def unknown_word(text: str) -> str:
    """The first command or option of a command line that `sm` does not have; empty if it has all."""
    group: click.Command = sm
    for word in shlex.split(text.partition(" && ")[0])[1:]:
        if word.isupper():  # a placeholder
            break
        if word.startswith("-") and word != "-":
            options = {name for parameter in group.params for name in parameter.opts} | {"-h", "--help"}
            if word.partition("=")[0] not in options:
                return word
        elif isinstance(group, click.Group):
            found = group.get_command(click.Context(group), word)
            if found is None:
                return word
            group = found
    return ""


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_page_names_only_commands_and_options_that_exist(page: Path) -> None:
    assert {text: word for text in inline_commands(page) if (word := unknown_word(text))} == {}


@pytest.mark.parametrize("text", ["sm nothing", "sm ls --nothing", "sm daemon nothing"])
def test_unknown_command_or_option_of_a_page_is_found(text: str) -> None:
    assert "nothing" in unknown_word(text)


def test_every_page_with_commands_is_typed_by_a_test() -> None:
    tests = Path("tests/integration/test_claude_pages.py").read_text(encoding="utf-8")
    with_commands = [page for page in PAGES if any(isinstance(step, Command) for step in steps(page))]
    assert len(with_commands) > 10
    assert [page.name for page in with_commands if page.name not in tests] == []


def test_guide_index_links_to_every_page() -> None:
    index = (GUIDE / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in GUIDE.glob("[a-z]*.md") if f"]({page.name})" not in index] == []


def test_readme_is_short() -> None:
    assert len(Path("README.md").read_text(encoding="utf-8").splitlines()) < README_LINES_MAX


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_paragraph_about_a_daemon_that_commands_start_names_the_exit_code_of_a_stopped_one(
    page: Path,
) -> None:
    for paragraph in page.read_text(encoding="utf-8").split("\n\n"):
        words = " ".join(paragraph.split())
        if "command" in words and "daemon" in words and "starts it" in words:
            assert "`sm daemon stop`" in words
            assert "exit with 7" in words
