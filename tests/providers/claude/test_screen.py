# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""Every screen that was captured from the real program, and those that are made to mislead."""

import json
import re
import textwrap
from functools import cache
from pathlib import Path

import pytest

from sm.providers.claude.screen import Obstacle, State, read_end, read_screen, read_title

DATA = Path(__file__).parents[2] / "data/screens"
CAPTURES = {
    path.stem: path for folder in ("claude", "claude-sizes") for path in sorted((DATA / folder).glob("*.txt"))
}
"""claude 2.1.197: `claude` at 120x40, `claude-sizes` at 50x30, 80x24 and 200x50 (the end of the name)."""

RULE = "─" * 80
IDLE_FOOTER = "  ? for shortcuts · ← for agents                                ● high · /effort"
BUSY_FOOTER = "  esc to interrupt · ← for agents                               ● high · /effort"


@cache
def capture(name: str) -> list[str]:
    return CAPTURES[name].read_text(encoding="utf-8").split("\n")


@cache
def label(name: str) -> str:
    facts = json.loads(CAPTURES[name].with_suffix(".json").read_text(encoding="utf-8"))
    return str(facts["state"])


def boxed(chat: str, draft: str = "", footer: str = IDLE_FOOTER, rule: str = RULE) -> list[str]:
    """A screen as claude draws it: the chat, a blank line, the box, a footer."""
    inside = textwrap.indent(draft, "  ", lambda line: True)[2:] if draft else ""
    return [*chat.split("\n"), "", rule, *f"❯\xa0{inside}".split("\n"), rule, footer, "", ""]


def quoted(name: str) -> str:
    """All of a captured screen, as an agent's message would quote it."""
    return (
        "● This is what I have seen:\n\n" + "\n".join(f"  {line}".rstrip() for line in capture(name)).rstrip()
    )


@pytest.mark.parametrize("name", CAPTURES)
def test_every_capture_is_read_as_its_label(name: str) -> None:
    assert read_screen(capture(name)).state == label(name)


def rewrapped(lines: list[str], columns: int) -> list[str]:
    """The same screen in a narrower pane: rules and gaps shorter, sentences wrapped below their beginning."""
    rows: list[str] = []
    for line in lines:
        excess = len(line) - columns
        gap = max(re.findall(" {6,}", line), default="")
        if excess <= 0 or line.startswith("─"):
            rows.append(line[max(excess, 0) :])
        elif line.lstrip().startswith(("│", "╭", "╰", "╌", "/")):
            rows.append(line[:columns])
        else:
            line = line.replace(gap, " " * max(4, len(gap) - excess)) if gap else line
            indent = " " * (len(line) - len(line.lstrip()) or 2)
            rows += textwrap.wrap(line, columns, subsequent_indent=indent)
    return rows


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_a_narrower_pane_changes_nothing(columns: int) -> None:
    for name in CAPTURES:
        if label(name) != "exited":
            assert read_screen(rewrapped(capture(name), columns)).state == label(name), name


def test_padding_and_blank_lines_at_the_end_change_nothing() -> None:
    for name in CAPTURES:
        padded = [line.ljust(200) for line in capture(name)]
        assert read_screen([*padded, *[""] * 30]) == read_screen(capture(name)), name


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize(
    "end", ["Pane is dead (status 143, Sat Nov 21 16:28:21 2026)", "[sm] the agent has ended"]
)
def test_what_stands_below_a_dead_process_ends_every_screen(name: str, end: str) -> None:
    assert read_screen([*capture(name), end]).state is State.EXITED


@pytest.mark.parametrize(
    "end",
    [
        ["Pane is dead (signal 9, Sat Nov 21 16:28:21 2026)"],
        ["Pane is dead"],
        ["Pane is dead (status 1, Sat Nov 21 16:30:21 2026", ")"],
        ["Resume this session with:", "claude --resume my-agent"],
        [
            "Resume this session with:",
            'claude --resume "my agent"',
            "",
            "Pane is dead (status 0, Sat Nov 21)",
        ],
        ["[exit 137]", "bash-5.2# "],
        ["user@host:~/work$ "],
        ["[user@host work]$ "],
    ],
)
def test_an_end_is_seen_below_a_box_that_was_left_behind(end: list[str]) -> None:
    left = boxed("● Done.", footer=BUSY_FOOTER)
    assert read_screen([*left, *end, "", ""]).state is State.EXITED


# ----------------------------------------------------------------------------------------------- made to mislead

MARKERS = """● esc to interrupt
  ✻ Thinking… (3s · ↓ 16 tokens · esc to interrupt)
  Do you want to proceed?
  ❯ 1. Yes
    2. No

  Esc to cancel · Tab to amend
  ☐ Database
  Enter to select · ↑/↓ to navigate · Esc to cancel
  Accessing workspace: Yes, I trust this folder
  Pane is dead (status 143, Sat Nov 21 16:28:21 2026)
  [sm] the agent has ended
  Resume this session with:
  claude --resume 11111111-1111-4111-8111-111111111111
  Error: Invalid session ID. Must be a valid UUID.
  Not logged in · Run /login
  1 shell · ← for agents
  Press up to edit queued messages
  [exit 0]"""


def test_a_quoted_screen_above_an_empty_box_is_only_quoted() -> None:
    for name in CAPTURES:
        screen = read_screen(boxed(f"❯ what did you see?\n\n{quoted(name)}\n\n✻ Cooked for 4s"))
        seen = (screen.state, screen.composer, screen.queued, screen.background)
        assert seen == (State.IDLE, "", False, False), name


def test_a_quoted_screen_does_not_hide_that_claude_works() -> None:
    for name in CAPTURES:
        chat = f"{quoted(name)}\n\n✢ Stewing… (1s · ↓ 10 tokens)"
        assert read_screen(boxed(chat, footer=BUSY_FOOTER)).state is State.WORKING, name


def live_part(name: str) -> list[str]:
    """A captured dialog from its own first rule on; nothing where that is above the top of the pane."""
    rows = capture(name)
    rules = [number for number, row in enumerate(rows) if row and set(row) == {"─"}]
    within = "Chat about this" in rows[rules[-1] + 1] if rules else False
    boxed = read_screen(rows).composer is not None
    return rows[rules[-2 if within or boxed else -1] :] if rules else []


DIALOGS = [
    name for name in CAPTURES if label(name) in ("permission", "question", "dialog") and live_part(name)
]


@pytest.mark.parametrize(
    "above", ["trust-dialog-01", "perm-bash-01", "ask-one-01", "idle-fresh-01", "exited-sigTERM-01"]
)
def test_a_quoted_screen_above_a_dialog_is_only_quoted(above: str) -> None:
    for live in DIALOGS:
        assert read_screen([*quoted(above).split("\n"), "", *live_part(live)]).state == label(live), live


def question(text: str, *options: str, header: str = " ☐ Database") -> list[str]:
    """A question as claude draws it: the first option chosen, the last below a rule of its own."""
    marked = [f"{'❯' if n == 1 else ' '} {n}. {option}" for n, option in enumerate(options, 1)]
    last = f"  {len(options) + 1}. Chat about this"
    keys = "Enter to select · ↑/↓ to navigate · Esc to cancel"
    return ["● I ask.", RULE, header, "", text, "", *marked, RULE, last, "", keys]


@pytest.mark.parametrize(
    "text", ["Let's get started", "Select login method:", "Do you want to proceed?", "Security notes:"]
)
@pytest.mark.parametrize("option", ["Yes, I trust this folder", "Yes, I accept", "Yes", "1. Yes"])
def test_an_agent_cannot_make_its_question_look_like_another_dialog(text: str, option: str) -> None:
    """Else a person would be told to type `sm trust`."""
    screen = read_screen(question(text, option, "No, exit", "Type something."))
    assert (screen.state, screen.obstacle) == (State.QUESTION, None)
    assert read_end([*question(text, option, "No, exit"), "Pane is dead"]).obstacle is None


def test_a_command_cannot_make_its_permission_look_like_another_dialog() -> None:
    for words in (
        "Yes, I trust this folder",
        "Let's get started.",
        "☐ Database",
        "Do you want to use this API key?",
    ):
        rows = [row.replace("touch x.txt; sleep 4", words) for row in capture("perm-bash-01")]
        assert read_screen(rows).state is State.PERMISSION


def test_a_reason_to_end_counts_only_as_the_last_words() -> None:
    reason = "Error: Invalid session ID. Must be a valid UUID."
    assert read_screen(["", reason, ""]).state is State.EXITED
    assert read_screen([reason, "", "something else that is not known"]).state is State.UNKNOWN


def test_every_marker_in_the_chat_and_in_the_draft_is_only_text() -> None:
    draft = MARKERS.replace("● ", "").replace("\n  ", "\n")
    screen = read_screen(boxed(f"{MARKERS}\n\n✻ Cooked for 4s", draft, footer=""))
    assert (screen.state, screen.composer) == (State.IDLE, draft)


def test_a_tool_that_prints_a_dialog_with_its_rules_is_not_one() -> None:
    chat = f"● Bash(cat saved-screen)\n  ⎿  {RULE}\n      Bash command\n      Do you want to proceed?\n" + (
        "      ❯ 1. Yes\n        2. No\n     Esc to cancel\n\n✻ Worked for 0s"
    )
    assert read_screen(boxed(chat)).state is State.IDLE


def test_rules_in_a_draft_are_not_the_box() -> None:
    draft = f"{RULE}\n❯ 1. Yes\n{RULE}"
    assert read_screen(boxed("✻ Worked for 0s", draft, footer="")).composer == draft


@pytest.mark.parametrize(
    "draft", ["1. one thing\n2. another", "/model", "@R", "mail me @home", "esc to interrupt"]
)
def test_a_draft_is_read_while_claude_works(draft: str) -> None:
    screen = read_screen(boxed("● words\n\n✳ Any verb… (12s)", draft, BUSY_FOOTER))
    assert (screen.state, screen.composer) == (State.WORKING, draft)


def test_what_a_menu_describes_is_no_footer() -> None:
    below = ["/poke                         Says esc to interrupt · 2 shells · Esc to cancel"]
    screen = read_screen([*boxed("✻ Worked for 0s", "/po", "")[:-3], *below])
    assert (screen.state, screen.composer, screen.background) == (State.IDLE, "/po", False)


def test_the_names_of_tasks_below_the_footer_are_no_footer() -> None:
    below = [IDLE_FOOTER, "", "  ● main", "  ◯ general-purpose  esc to interrupt · 2 shells"]
    screen = read_screen([*boxed("✻ Worked for 0s")[:-3], *below])
    assert (screen.state, screen.background) == (State.IDLE, False)


@pytest.mark.parametrize("glyph", "·✢✳✶✻✽*+◐⠋")
@pytest.mark.parametrize(
    "line",
    [
        "Reticulating…",
        "Doing the first task… (1s · ↓ 33 tokens)",
        "Compacting conversation… (esc to interrupt)",
    ],
)
def test_any_glyph_and_verb_is_a_spinner_where_the_footer_does_not_say_more(glyph: str, line: str) -> None:
    for footer in ("", "  paste again to expand", "  ⏵⏵ accept edits on (shift+tab to cycle)"):
        assert read_screen(boxed(f"● word0\n\n{glyph} {line}", "draft", footer)).state is State.WORKING


@pytest.mark.parametrize(
    "footer",
    [
        "  esc to int…",
        "  ⏸ plan mode on · 1 shell · esc to",
        "  esc to interrupt",
        "  ⏵⏵ on · esc to interrupt · x",
    ],
)
def test_a_footer_that_is_cut_still_says_that_claude_works(footer: str) -> None:
    assert read_screen(boxed("● word0", footer=footer)).state is State.WORKING


@pytest.mark.parametrize(
    "last", ["✻ Cooked for 4s", "✻ Sautéed for 1m 2s · 1 shell still running", "✻ Conversation compacted"]
)
def test_a_turn_that_is_over_is_no_spinner(last: str) -> None:
    assert read_screen(boxed(f"● Done.\n\n{last}", "draft", "")).state is State.IDLE


def test_an_idle_claude_may_have_a_shell_in_the_background() -> None:
    assert read_screen(capture("idle-but-bg-bash-01")).background
    assert read_screen(capture("bg-shell-80")).background
    assert not read_screen(capture("bg-bash-finished-01")).background
    waiting = read_screen(capture("idle-but-bg-agent-01"))
    assert (waiting.background, waiting.what) == (True, "it is waiting for 1 background agent to finish")


def test_a_hint_in_an_empty_box_is_no_draft() -> None:
    for name in ("working-with-queued-01", "working-40-queued-01", "queued2-50", "queued2-80"):
        screen = read_screen(capture(name))
        assert (screen.composer, screen.queued) == ("", True)
    assert read_screen(boxed("", 'Try "fix lint errors"')).composer == ""
    # Where the footer does not say that the box is empty, a person has typed it.
    assert read_screen(boxed("✻ Done for 1s", "Press up to edit queued messages", "")).composer != ""


def test_queued_messages_are_seen_beside_a_draft() -> None:
    screen = read_screen(capture("work-draft-80"))
    assert (screen.state, screen.composer, screen.queued) == (State.WORKING, "my draft while it works", True)


def test_shell_mode_is_never_an_empty_box() -> None:
    assert read_screen(capture("mode-bang-01")).composer == "!"


def test_a_named_session_has_its_name_in_the_rule() -> None:
    for name in ("my-agent", "エージェント", "a b"):
        rule = f"{'─' * 60} {name} ──"
        screen = read_screen([*boxed("● Done.")[:-6], "", rule, "❯ ", RULE, IDLE_FOOTER])
        assert (screen.state, screen.composer) == (State.IDLE, "")


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [""] * 40,
        ["bash-5.2# "],
        ["some output", "of some program"],
        ["❯ "],
        [RULE, "❯ hello"],
        [RULE, "hello", RULE],
        [RULE, RULE],
        [RULE],
        ["─" * 40, "❯ ", RULE],
        [*boxed("● Done."), "something that is not claude's"],
        ["  a draft that is taller than the pane", "  and goes on", RULE, "          ctrl+g to edit in Vim"],
        ["  a long answer", "  without a beginning", "", RULE, "❯ ", RULE, "  a status line of the user's own"],
        ["● It asked:", "", "  Do you want to proceed?", "  ❯ 1. Yes", "    2. No", "", "  Esc to cancel"],
        [RULE, "  Do you want to proceed?", "  1. Yes", "  2. No"],
    ],
)  # fmt: skip
def test_what_is_not_recognised_is_unknown(lines: list[str]) -> None:
    screen = read_screen(lines)
    assert (screen.state, screen.hint) == (State.UNKNOWN, None)


def test_a_screen_without_a_box_has_no_composer() -> None:
    for name in CAPTURES:
        if label(name) in ("permission", "question", "exited"):
            assert read_screen(capture(name)).composer is None


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("perm-bash-01", "it asks whether to run a command: touch x.txt; sleep 4"),
        ("perm-edit-01", "it asks whether to edit a file: README.md"),
        ("perm-write-01", "it asks whether to create a file: out.txt"),
        ("perm-fetch-80", "it asks: Do you want to allow Claude to fetch this content?"),
        ("plan-approval-01", "it asks whether to carry out its plan"),
        ("plan-approval-02", "it asks whether to carry out its plan"),
        ("ask-two-q2-01", "it asks: Which features?"),
        (
            "ask-50",
            "it asks: Which database should we use for the very long named component of this project?",
        ),
        ("error-500-retrying-01", "API error, retrying in 2s (attempt 3/10)"),
        ("dialog-rewind-01", "the Rewind dialog is open"),
        ("config-80", "the Settings dialog is open"),
        ("transcript-view-01", "a dialog is open: Showing detailed transcript"),
        ("idle-fresh-01", "it is at its prompt"),
        ("idle-draft-01", "it is at its prompt, a draft stands in it"),
        ("flag-bad-session-id-01", "it has ended: its session id is not a UUID"),
        ("trust-50", "it has not started: it asks whether the directory is trusted"),
    ],
)
def test_a_person_reads_in_one_line_what_it_is(name: str, what: str) -> None:
    assert read_screen(capture(name)).what == what


def test_a_hint_stands_where_a_person_is_needed() -> None:
    for name in CAPTURES:
        screen = read_screen(capture(name))
        needed = screen.state in (State.PERMISSION, State.QUESTION, State.DIALOG, State.BLOCKED)
        assert (screen.hint is not None) == needed, name
        assert "\n" not in screen.what and len(screen.what) <= 200, name


def test_a_dialog_is_left_with_the_key_that_it_names() -> None:
    assert read_screen(capture("dialog-model-01")).hint == "close it in its terminal: Escape"
    assert read_screen(capture("transcript-50")).hint == "close it in its terminal: Ctrl+o"


def test_the_model_that_the_api_does_not_know_is_named() -> None:
    said = "● There's an issue with the selected model (nope). It may not exist or you may not have access to\n  it."
    screen = read_screen(boxed(f"❯ hi\n\n{said}\n\n✻ Cooked for 0s"))
    assert (screen.state, screen.obstacle, screen.detail) == (State.IDLE, Obstacle.BAD_MODEL, "nope")
    assert read_screen(boxed(f"{said}\n\n❯ and now?\n\n● Done.\n\n✻ Cooked for 0s")).obstacle is None


def test_the_end_of_anything_is_an_end() -> None:
    for name in CAPTURES:
        assert read_end(capture(name)).state is State.EXITED, name


@pytest.mark.parametrize(
    ("title", "state"),
    [
        ("✳ Claude Code", State.IDLE),
        ("✳ ", State.IDLE),
        ("⠂ Scripted title", State.WORKING),
        ("⠐ Scripted title", State.WORKING),
        ("⣿ any", State.WORKING),
        ("", None),
        ("vm", None),
        ("✳", None),
        ("⠂", None),
        ("⠀ blank", None),
        ("· title", None),
        ("my ✳ title", None),
        ("✳⠂ two", None),
    ],
)
def test_a_title_says_busy_or_not(title: str, state: State | None) -> None:
    assert read_title(title) is state


def test_the_titles_of_the_captures_agree_with_their_screens() -> None:
    for path in (DATA / "claude").glob("*.json"):
        facts = json.loads(path.read_text(encoding="utf-8"))
        shown = read_title(facts["title"])
        if facts["state"] == "working":
            assert shown is State.WORKING, path.stem
        elif facts["state"] != "exited":
            assert shown is not State.WORKING, path.stem


def test_a_rule_of_the_box_that_is_left_below_a_dialog_hides_nothing() -> None:
    """As 2.1.197 draws /model over a box that carries the session's name, at 120 columns."""
    rule = 120 * "─"
    lines = [
        "● done",
        "",
        "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT} /model",
        "",
        rule,
        "  Select model",
        "  Switch between Claude models. Your pick becomes the default for new sessions.",
        "",
        "  \N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT} 1. Default (recommended) ✔  Use the default model",
        "    2. Opus                     Best for everyday, complex tasks",
        "",
        "  ● High effort (default) ←/→ to adjust",
        "",
        "  Enter to set as default · s to use this session only · Esc to cancel",
    ]
    assert read_screen(lines).state is State.DIALOG
    assert read_screen([*lines, f"{97 * '─'} editor-634e722a ──"]).state is State.DIALOG
