# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""Reading every captured screen of the real program, and screens made to mislead."""

import json
import re
import textwrap
from functools import cache
from pathlib import Path

import pytest

from sm.providers.claude.dialect import use
from sm.providers.claude.screen import Obstacle, State, read_end, read_output, read_screen, read_title

DATA = Path(__file__).parents[2] / "data/screens"
CAPTURES = {
    path.stem: path for folder in ("claude", "claude-sizes") for path in sorted((DATA / folder).glob("*.txt"))
}
"""claude 2.1.197: `claude` at 120x40; `claude-sizes` at 50x30, 80x24 or 200x50, by the end of the name."""

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
    """A captured screen as an agent's message quotes it."""
    return (
        "● This is what I have seen:\n\n" + "\n".join(f"  {line}".rstrip() for line in capture(name)).rstrip()
    )


@pytest.mark.parametrize("name", CAPTURES)
def test_captured_screen_is_read_as_its_label(name: str) -> None:
    assert read_screen(capture(name)).state == label(name)


def test_captured_screens_are_read_the_same_where_options_need_no_numbers(tmp_path: Path) -> None:
    own = tmp_path / "dialect.toml"
    own.write_text("[dialog.numbered]\ncareful = false\n")
    numbered = {name: read_screen(capture(name)) for name in CAPTURES}
    try:
        use(str(own))
        assert {name: read_screen(capture(name)) for name in CAPTURES} == numbered
    finally:
        use(None)


def test_output_is_the_chat_without_input_box_footer_and_rules() -> None:
    chat = f"❯ do it\n\n{RULE}\n● done"
    assert read_output(boxed(chat, "a draft\nof two lines")) == ["❯ do it", "", "● done"]
    assert read_output(["$ make", "", ""]) == ["$ make"]


@pytest.mark.parametrize("name", [name for name in CAPTURES if label(name) in ("idle", "working")])
def test_output_of_a_captured_screen_has_no_rule_and_no_footer(name: str) -> None:
    shown = read_output(capture(name))
    text = "\n".join(shown)
    assert not [row for row in shown if row.startswith("─" * 10)]
    assert "? for shortcuts" not in text
    assert "esc to interrupt ·" not in text


def rewrapped(lines: list[str], columns: int) -> list[str]:
    """The same screen in a narrower pane: with shorter rules and gaps, and wrapped sentences."""
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
def test_captured_screen_is_read_the_same_in_a_narrower_pane(columns: int) -> None:
    for name in CAPTURES:
        if label(name) != "exited":
            assert read_screen(rewrapped(capture(name), columns)).state == label(name), name


def test_captured_screen_is_read_the_same_with_padding_and_blank_lines() -> None:
    for name in CAPTURES:
        padded = [line.ljust(200) for line in capture(name)]
        assert read_screen([*padded, *[""] * 30]) == read_screen(capture(name)), name


@pytest.mark.parametrize(
    "end", ["Pane is dead (status 143, Sat Nov 21 16:28:21 2026)", "[sm] the agent has ended"]
)
def test_screen_is_exited_when_the_pane_reports_the_end_of_the_process(end: str) -> None:
    for name in CAPTURES:
        assert read_screen([*capture(name), end]).state is State.EXITED, name


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
def test_screen_is_exited_when_an_old_box_is_above_the_end(end: list[str]) -> None:
    old_box = boxed("● Done.", footer=BUSY_FOOTER)
    assert read_screen([*old_box, *end, "", ""]).state is State.EXITED


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


def test_screen_quoted_above_an_empty_box_is_ignored() -> None:
    for name in CAPTURES:
        screen = read_screen(boxed(f"❯ what did you see?\n\n{quoted(name)}\n\n✻ Cooked for 4s"))
        facts = (screen.state, screen.composer, screen.queued, screen.background)
        assert facts == (State.IDLE, "", False, False), name


def test_screen_quoted_in_the_chat_does_not_hide_that_claude_works() -> None:
    for name in CAPTURES:
        chat = f"{quoted(name)}\n\n✢ Stewing… (1s · ↓ 10 tokens)"
        assert read_screen(boxed(chat, footer=BUSY_FOOTER)).state is State.WORKING, name


def live_part(name: str) -> list[str]:
    """A captured dialog from its own first rule on; empty if that rule is above the top of the pane."""
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
def test_screen_quoted_above_a_dialog_is_ignored(above: str) -> None:
    for live in DIALOGS:
        assert read_screen([*quoted(above).split("\n"), "", *live_part(live)]).state == label(live), live


def question(text: str, *options: str, header: str = " ☐ Database") -> list[str]:
    """A question as claude draws it: the first option is selected, the last is below a separate rule."""
    marked = [f"{'❯' if n == 1 else ' '} {n}. {option}" for n, option in enumerate(options, 1)]
    last = f"  {len(options) + 1}. Chat about this"
    keys = "Enter to select · ↑/↓ to navigate · Esc to cancel"
    return ["● I ask.", RULE, header, "", text, "", *marked, RULE, last, "", keys]


@pytest.mark.parametrize(
    "text", ["Let's get started", "Select login method:", "Do you want to proceed?", "Security notes:"]
)
@pytest.mark.parametrize("option", ["Yes, I trust this folder", "Yes, I accept", "Yes", "1. Yes"])
def test_question_of_an_agent_cannot_imitate_another_dialog(text: str, option: str) -> None:
    """Otherwise sm would tell a person to type `sm trust`."""
    screen = read_screen(question(text, option, "No, exit", "Type something."))
    assert (screen.state, screen.obstacle) == (State.QUESTION, None)
    assert read_end([*question(text, option, "No, exit"), "Pane is dead"]).obstacle is None


def test_permission_dialog_of_a_command_cannot_imitate_another_dialog() -> None:
    for words in (
        "Yes, I trust this folder",
        "Let's get started.",
        "☐ Database",
        "Do you want to use this API key?",
    ):
        rows = [row.replace("touch x.txt; sleep 4", words) for row in capture("perm-bash-01")]
        assert read_screen(rows).state is State.PERMISSION


def test_reason_of_an_exit_counts_only_on_the_last_line() -> None:
    reason = "Error: Invalid session ID. Must be a valid UUID."
    assert read_screen(["", reason, ""]).state is State.EXITED
    assert read_screen([reason, "", "something else that is not known"]).state is State.UNKNOWN


def test_markers_in_the_chat_and_the_draft_are_ignored() -> None:
    draft = MARKERS.replace("● ", "").replace("\n  ", "\n")
    screen = read_screen(boxed(f"{MARKERS}\n\n✻ Cooked for 4s", draft, footer=""))
    assert (screen.state, screen.composer) == (State.IDLE, draft)


def command_dialog(*above: str, command: str = "python3 -c 'print(6*7)'") -> list[str]:
    """The dialog about a command as 2.1.332 draws it. `above`: the rows between the title and the command."""
    frame = "╌" * 80
    asks = ["", " Do you want to proceed?", " ❯ 1. Yes", "   2. No", "", " Esc to cancel · Tab to amend"]
    return [
        RULE,
        " Bash command",
        *above,
        frame,
        f" {command}",
        frame,
        " This command requires approval",
        *asks,
    ]


@pytest.mark.parametrize(
    "above",
    [
        (" Tip: auto mode handles these prompts — choose", ' "switch to auto mode" below', " count"),
        (" count",),
        (f" {'╌' * 78}", " Tip: an agent describes its command so"),
    ],
)
def test_permission_names_the_framed_command_when_other_rows_stand_above_it(above: tuple[str, ...]) -> None:
    assert read_screen(command_dialog(*above)).what == "claude asks to run a command: python3 -c 'print(6*7)'"
    named = read_screen(command_dialog(*above, command="╌╌╌ --x"))
    assert named.what == "claude asks to run a command: ╌╌╌ --x"


def test_dialog_printed_by_a_tool_is_ignored() -> None:
    chat = f"● Bash(cat saved-screen)\n  ⎿  {RULE}\n      Bash command\n      Do you want to proceed?\n" + (
        "      ❯ 1. Yes\n        2. No\n     Esc to cancel\n\n✻ Worked for 0s"
    )
    assert read_screen(boxed(chat)).state is State.IDLE


def test_rules_inside_a_draft_are_part_of_the_draft() -> None:
    draft = f"{RULE}\n❯ 1. Yes\n{RULE}"
    assert read_screen(boxed("✻ Worked for 0s", draft, footer="")).composer == draft


@pytest.mark.parametrize(
    "draft", ["1. one thing\n2. another", "/model", "@R", "mail me @home", "esc to interrupt"]
)
def test_draft_is_read_while_claude_works(draft: str) -> None:
    screen = read_screen(boxed("● words\n\n✳ Any verb… (12s)", draft, BUSY_FOOTER))
    assert (screen.state, screen.composer) == (State.WORKING, draft)


def test_descriptions_in_a_menu_are_not_read_as_a_footer() -> None:
    below = ["/poke                         Says esc to interrupt · 2 shells · Esc to cancel"]
    screen = read_screen([*boxed("✻ Worked for 0s", "/po", "")[:-3], *below])
    assert (screen.state, screen.composer, screen.background) == (State.IDLE, "/po", False)


def test_task_names_below_the_footer_are_not_read_as_a_footer() -> None:
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
def test_spinner_with_any_glyph_and_verb_means_working(glyph: str, line: str) -> None:
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
def test_cut_footer_still_means_working(footer: str) -> None:
    assert read_screen(boxed("● word0", footer=footer)).state is State.WORKING


@pytest.mark.parametrize(
    "last", ["✻ Cooked for 4s", "✻ Sautéed for 1m 2s · 1 shell still running", "✻ Conversation compacted"]
)
def test_line_of_a_finished_turn_is_not_read_as_a_spinner(last: str) -> None:
    assert read_screen(boxed(f"● Done.\n\n{last}", "draft", "")).state is State.IDLE


def test_idle_screen_reports_background_work() -> None:
    assert read_screen(capture("idle-but-bg-bash-01")).background
    assert read_screen(capture("bg-shell-80")).background
    assert not read_screen(capture("bg-bash-finished-01")).background
    waiting = read_screen(capture("idle-but-bg-agent-01"))
    assert (waiting.background, waiting.what) == (True, "claude is waiting for 1 background agent to finish")


def test_hint_in_an_empty_box_is_not_read_as_a_draft() -> None:
    for name in ("working-with-queued-01", "working-40-queued-01", "queued2-50", "queued2-80"):
        screen = read_screen(capture(name))
        assert (screen.composer, screen.queued) == ("", True)
    assert read_screen(boxed("", 'Try "fix lint errors"')).composer == ""
    # Without a footer that reports an empty box, a person typed the text.
    assert read_screen(boxed("✻ Done for 1s", "Press up to edit queued messages", "")).composer != ""


def test_queued_messages_and_a_draft_are_both_read() -> None:
    screen = read_screen(capture("work-draft-80"))
    assert (screen.state, screen.composer, screen.queued) == (State.WORKING, "my draft while it works", True)


def test_composer_is_not_empty_in_shell_mode() -> None:
    assert read_screen(capture("mode-bang-01")).composer == "!"


def test_box_is_read_when_its_rule_contains_the_session_name() -> None:
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
def test_screen_is_unknown_when_nothing_is_recognized(lines: list[str]) -> None:
    screen = read_screen(lines)
    assert (screen.state, screen.hint) == (State.UNKNOWN, None)


def test_composer_is_none_when_the_screen_has_no_box() -> None:
    for name in CAPTURES:
        if label(name) in ("permission", "question", "exited"):
            assert read_screen(capture(name)).composer is None


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("perm-bash-01", "claude asks to run a command: touch x.txt; sleep 4"),
        ("perm-edit-01", "claude asks to edit a file: README.md"),
        ("perm-write-01", "claude asks to create a file: out.txt"),
        ("perm-fetch-80", "claude asks: Do you want to allow Claude to fetch this content?"),
        ("plan-approval-01", "claude asks for approval of its plan"),
        ("plan-approval-02", "claude asks for approval of its plan"),
        ("ask-two-q2-01", "claude asks: Which features?"),
        (
            "ask-50",
            "claude asks: Which database should we use for the very long named component of this project?",
        ),
        ("error-500-retrying-01", "API error, retrying in 2s (attempt 3/10)"),
        ("dialog-rewind-01", "the Rewind dialog is open"),
        ("config-80", "the Settings dialog is open"),
        ("transcript-view-01", "the transcript view is open (Ctrl+O closes it)"),
        ("idle-fresh-01", "claude is at its prompt"),
        ("idle-draft-01", "claude is at its prompt, with a draft"),
        ("flag-bad-session-id-01", "claude has ended: its session id is not a UUID"),
        ("trust-50", "claude has not started: it asks whether the directory is trusted"),
    ],
)
def test_captured_screen_has_a_one_line_description(name: str, what: str) -> None:
    assert read_screen(capture(name)).what == what


def test_row_of_a_retry_is_read_in_the_words_of_a_later_version() -> None:
    """As 2.1.332 draws it."""
    rule = 120 * "─"
    above = ["❯ hello", "", "✻ API error · retrying in 1s · attempt 1/10", ""]
    footer = "  ⏸ manual mode on · esc to interrupt".ljust(102) + "◐ medium · /effort"
    screen = read_screen([*above, rule, "❯\N{NO-BREAK SPACE}", rule, footer])
    assert screen.state is State.WORKING
    assert screen.what == "API error, retrying in 1s (attempt 1/10)"


def test_screen_has_a_hint_only_when_a_person_is_needed() -> None:
    for name in CAPTURES:
        screen = read_screen(capture(name))
        needed = screen.state in (State.PERMISSION, State.QUESTION, State.DIALOG, State.BLOCKED)
        assert (screen.hint is not None) == needed, name
        assert "\n" not in screen.what and len(screen.what) <= 200, name


def test_hint_names_the_key_that_closes_the_dialog() -> None:
    assert read_screen(capture("dialog-model-01")).hint == "close the dialog in the terminal: press Escape"
    assert read_screen(capture("transcript-50")).hint == "close the dialog in the terminal: press Ctrl+o"


def test_screen_names_a_model_that_the_API_does_not_know() -> None:
    error = "● There's an issue with the selected model (nope). It may not exist or you may not have access to\n  it."
    screen = read_screen(boxed(f"❯ hi\n\n{error}\n\n✻ Cooked for 0s"))
    assert (screen.state, screen.obstacle, screen.detail) == (State.IDLE, Obstacle.BAD_MODEL, "nope")
    assert read_screen(boxed(f"{error}\n\n❯ and now?\n\n● Done.\n\n✻ Cooked for 0s")).obstacle is None


def test_read_end_reads_every_capture_as_exited() -> None:
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
        ("◐ Scripted title", State.WORKING),
        ("◑ Scripted title", State.WORKING),
        ("Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA", None),
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
def test_read_title_tells_idle_from_working(title: str, state: State | None) -> None:
    assert read_title(title) is state


def test_captured_titles_agree_with_their_screens() -> None:
    for path in (DATA / "claude").glob("*.json"):
        facts = json.loads(path.read_text(encoding="utf-8"))
        state = read_title(facts["title"])
        if facts["state"] == "working":
            assert state is State.WORKING, path.stem
        elif facts["state"] != "exited":
            assert state is not State.WORKING, path.stem


def test_dialog_is_read_when_a_rule_of_the_box_is_left_below_it() -> None:
    """2.1.197 draws /model like this over a box with the session's name, at 120 columns."""
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


# ------------------------------------------------------------------------------------------------ the usage limit


def test_dialog_about_the_usage_limit_is_recognized_in_every_size_and_nowhere_else() -> None:
    found = {name for name in CAPTURES if read_screen(capture(name)).usage_limit}
    assert found == {"usage-limit-01", "usage-limit-credits-01", "usage-limit-80", "usage-limit-50"}


LIMIT_DIALOG = [
    "\u276f /rate-limit-options",
    "",
    RULE,
    "  What do you want to do?",
    "",
    "  \u276f 1. Stop and wait for limit to reset",
    "    2. Upgrade your plan",
    "",
    "  Enter to confirm \u00b7 Esc to cancel",
]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (5, "  \u276f 1. Stop"),
        (6, "    2. Switch to usage credits"),
    ],
)
def test_dialog_about_the_usage_limit_may_have_other_options(row: int, text: str) -> None:
    rows = [*LIMIT_DIALOG]
    rows[row] = text
    assert read_screen(rows).usage_limit
    last_first = [*LIMIT_DIALOG]
    last_first[5], last_first[6] = "  \u276f 1. Upgrade your plan", "    2. Stop and wait for limit to reset"
    assert read_screen(last_first).usage_limit


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (2, ""),
        (3, "  What do you want to do now?"),
        (4, "  Delete everything?"),
        (5, "  \u276f 1. Yes"),
        (5, "    1. Stop and wait for limit to reset"),
        (8, "  Enter to confirm \u00b7 Esc to delete"),
        (8, "  Esc to cancel \u00b7 Tab to amend"),
        (8, ""),
    ],
)
def test_other_dialog_is_not_taken_for_the_one_about_the_usage_limit(row: int, text: str) -> None:
    rows = [*LIMIT_DIALOG]
    rows[row] = text
    assert not read_screen(rows).usage_limit


CREDITS_DIALOG = [
    RULE,
    f"  What do you want to do?{60 * ' '}Usage credit balance: $20.00",
    "",
    "  \u276f Adjust monthly spend limit: \u2026               \u2190 or \u2192 to set a limit",
    "    Wait for limit to reset",
    "",
    "  Enter to confirm \u00b7 Esc to cancel",
]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (3, "    Adjust monthly spend limit: Unlimited"),
        (4, "  \u276f Wait for limit to reset                   Resets 5:51am (UTC)"),
        (5, ""),
        (5, "\n  Press \u2190 or \u2192 to set a limit.\n"),
    ],
)
def test_dialog_about_usage_credits_is_one_about_the_usage_limit(row: int, text: str) -> None:
    rows = [*CREDITS_DIALOG]
    rows[row : row + 1] = text.split("\n")
    if row == 3:
        rows[4] = "  \u276f Wait for limit to reset"
    elif row == 4:
        rows[3] = "    Adjust monthly spend limit: $50"
    screen = read_screen(["\u276f /rate-limit-options", "", *rows])
    assert screen.usage_limit
    assert screen.state is State.DIALOG


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (0, ""),
        (1, "  What do you want to do?"),
        (1, "  What do you want to buy?   Usage credit balance: $20.00"),
        (3, "    Adjust monthly spend limit: $50"),
        (3, "  \u276f Delete everything"),
        (4, "    Wait"),
        (4, "  \u276f Wait for limit to reset"),
        (6, "  Enter to confirm"),
    ],
)
def test_other_dialog_is_not_taken_for_the_one_about_usage_credits(row: int, text: str) -> None:
    rows = [*CREDITS_DIALOG]
    rows[row] = text
    assert not read_screen(["\u276f /rate-limit-options", "", *rows]).usage_limit


def test_quoted_dialog_about_the_usage_limit_is_not_recognized() -> None:
    quoted_dialog = "\n".join(f"  {row}" for row in LIMIT_DIALOG)
    assert not read_screen(boxed(f"\u25cf It says:\n{quoted_dialog}")).usage_limit
    question = ["\u2500" * 80, " \u2610 Limit ", "", *LIMIT_DIALOG[3:]]
    assert not read_screen(question).usage_limit
    talk = [*LIMIT_DIALOG[:7], RULE, "    3. Chat about this", "", *LIMIT_DIALOG[8:]]
    assert not read_screen(talk).usage_limit
