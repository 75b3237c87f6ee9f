"""Notices of the desktop through the terminal."""

from collections.abc import Mapping

import pytest

from sm.cli.tui.notices import notice_sequence


@pytest.mark.parametrize(
    ("environ", "sequence"),
    [
        ({"TERM": "xterm-256color"}, "\x1b]9;api: r1; go?\x07"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7600"}, "\x1b]777;notify;sm;api: r1, go?\x07"),
        ({"TERM": "foot"}, "\x1b]777;notify;sm;api: r1, go?\x07"),
        ({"TERM": "rxvt-unicode-256color"}, "\x1b]777;notify;sm;api: r1, go?\x07"),
        ({}, "\x1b]9;api: r1; go?\x07"),
    ],
)
def test_terminal_gets_the_sequence_that_it_knows(environ: Mapping[str, str], sequence: str) -> None:
    assert notice_sequence(environ, "api: r1; go?") == sequence


@pytest.mark.parametrize("hostile", ["\x07\x1b]52;c;eA==\x07", "\x9c\x9d52;c;eA==", "a\nb\r", "x" * 10_000])
def test_text_of_an_agent_cannot_end_the_sequence(hostile: str) -> None:
    for environ in ({}, {"VTE_VERSION": "1"}):
        body = notice_sequence(environ, hostile).removeprefix("\x1b]").removesuffix("\x07")
        assert body.isprintable() and len(body) < 200
