# ruff: noqa: RUF001  (claude's pointer looks like a greater-than sign, and is not one)
"""The data about Claude Code: its form, an operator's file before it, and the choice of a fact."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sm.providers.claude.dialect as package
from sm.errors import ConfigError, UsageError
from sm.providers.base import PromptRefusal
from sm.providers.claude.box_reader import ClaudeBoxReader
from sm.providers.claude.check.contracts import ClaudeCheck
from sm.providers.claude.dialect import NOTHING, Known, current, models, read, use, version_in
from sm.providers.claude.dialect.loading import load_shipped
from sm.providers.claude.facts import Mark, facts
from sm.providers.claude.hooks import read_hook
from sm.providers.claude.options import merge_options, resumable_arguments
from sm.providers.claude.pasted_text import paste_groups, without_paste_tags
from sm.providers.claude.plan import ClaudeProvider, resume_environment
from sm.providers.claude.pricing import context_window
from sm.providers.claude.screen import Obstacle, State, read_screen, read_title
from sm.providers.claude.section import ClaudeSection

ROOM = Path(package.__file__).parent
SHIPPED = {
    name: fact
    for file in ("words.toml", "facts.toml")
    for name, fact in load_shipped(ROOM / file).facts.items()
}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Path]:
    """The operator's file, which the test may put to use."""
    yield tmp_path / "dialect.toml"
    use(None)


# ------------------------------------------------------------------------------------------ the data of sm


def used_names() -> set[str]:
    """The names of facts in the readers. A name that is put together counts with all that it may be."""
    sources = [path.read_text() for path in ROOM.parent.rglob("*.py") if ROOM not in path.parents]
    literal = re.compile(r'(?:texts|phrases|table|choose|renamed|group|_tagged\(text,)\(?\s*f?"([^"]+)"')
    names: set[str] = set()
    for name in (name for source in sources for name in literal.findall(source)):
        pattern = re.compile(re.sub(r"\\\{[^}]*\\\}", ".+", re.escape(name)))
        names |= {known for known in SHIPPED if pattern.fullmatch(known) or known.startswith(f"{name}.")}
    return names


def test_each_fact_is_read_by_something() -> None:
    by_composed_name = {
        name
        for name in SHIPPED
        if name.startswith(("renamed.", "answer.", "transcript.", "error.", "usage_limit."))
    }
    assert set(SHIPPED) - used_names() - by_composed_name == set()


def test_facts_name_contracts_and_versions_that_exist() -> None:
    contracts = {contract.name for contract in ClaudeCheck().contracts}
    for name in ("words.toml", "facts.toml"):
        text = (ROOM / name).read_text(encoding="utf-8")
        assert set(re.findall(r'^shown_by = "(.*)"$', text, re.MULTILINE)) <= contracts
        assert re.findall(r'^measured = \[(?!"2\.1\.\d+")', text, re.MULTILINE) == []
    for fact in SHIPPED.values():
        assert {case.contract for case in fact.cases} - {""} <= contracts


def test_models_have_a_date_and_a_source() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", models()["as_of"])
    assert models()["source"]


# ------------------------------------------------------------------------------------------ the choice


@pytest.mark.parametrize(
    ("known", "value", "reason"),
    [
        (NOTHING, True, "nothing better is known"),
        (Known((2, 1, 197)), False, "its version"),
        (Known((2, 1, 231)), False, "its version"),
        (Known((2, 1, 232)), True, "its version"),
        (Known((2, 1, 332)), True, "its version"),
    ],
)
def test_fact_is_chosen_by_the_version_else_it_is_careful(known: Known, value: bool, reason: str) -> None:
    choice = current().choose("trust.per_repository", known)
    assert (choice.value, choice.reason) == (value, reason)


def test_outcome_of_a_contract_counts_more_than_the_version(own: Path) -> None:
    own.write_text(
        '[paste.newlines]\ncareful = 2\nvalues = [{value = 40, contract = "text"}, {value = 9, from = "2.1.1"}]\n'
    )
    dialect = use(str(own))
    choose = [
        Known((2, 1, 333), {"text": True}),
        Known((2, 1, 333), {"text": False}),
        Known((2, 1, 333)),
        NOTHING,
    ]
    assert [dialect.choose("paste.newlines", known).value for known in choose] == [40, 9, 9, 2]
    assert dialect.choose("paste.newlines", choose[0]).reason == "its contract text holds"


def test_choices_are_those_of_each_fact_with_versions() -> None:
    chosen = {choice.name: choice.value for choice in current().choices(Known((2, 1, 197)))}
    assert chosen["trust.per_repository"] is False
    assert chosen["paste.characters"] == 600


def test_notes_name_a_new_version_the_contracts_that_decided_and_the_file_of_the_operator(own: Path) -> None:
    assert current().notes(Known((2, 1, 332))) == []
    [new] = current().notes(Known((2, 1, 333)))
    assert new.startswith("2.1.333 is newer than 2.1.332, with which sm was measured last; careful facts: ")
    assert "paste.newlines" in new
    assert "trust.per_repository" not in new  # known from a version on
    own.write_text(
        '[paste.newlines]\ncareful = 2\nvalues = [{value = 1, contract = "text", holds = false}]\n'
    )
    assert use(str(own)).notes(Known((2, 1, 197), {"text": False})) == [
        "fact paste.newlines is 1: its contract text does not hold",
        f"1 fact of {own} before those of sm: paste.newlines",
    ]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("2.1.332 (Claude Code)\n", (2, 1, 332)),
        ("2.1.197", (2, 1, 197)),
        ("2.1.333-beta", None),
        ("claude", None),
        ("1.2.3.4", None),
        ("", None),
    ],
)
def test_version_is_read_where_it_stands_alone(text: str, version: tuple[int, ...] | None) -> None:
    assert version_in(text) == version


# --------------------------------------------------------------------------------------- the operator's file

TRUST = (
    "─" * 60
    + "\n\n Accessing workspace:\n\n /home/x\n\n ❯ 1. Sure, this folder is fine\n   2. No, exit\n\n Enter to confirm"
)


def test_reworded_dialog_is_read_with_words_of_the_operator(own: Path) -> None:
    assert read_screen(TRUST.split("\n")).obstacle is None
    own.write_text('[start.trust.option]\nphrases = ["Sure, this folder is *"]\n')
    use(str(own))
    screen = read_screen(TRUST.split("\n"))
    assert (screen.state, screen.obstacle) == (State.BLOCKED, Obstacle.TRUST)
    earlier = TRUST.replace("Sure, this folder is fine", "Yes, I trust this folder")
    assert read_screen(earlier.split("\n")).obstacle is Obstacle.TRUST


def test_new_spinner_is_read_with_glyphs_of_the_operator(own: Path) -> None:
    assert read_title("◰ title") is None
    own.write_text('[title.busy]\ntexts = ["◰-◳"]\n')
    use(str(own))
    assert [read_title(f"{glyph} title") for glyph in "◰◳⠁◐"] == [State.WORKING] * 4


def test_dialog_without_numbers_is_read_where_the_operator_says_so(own: Path) -> None:
    own.write_text("[dialog.numbered]\ncareful = false\n")
    rule, keys = "\u2500" * 60, " Esc to cancel \u00b7 Tab to amend"
    asks = [" Bash command", "", "   touch x", "", " Do you want to proceed?"]
    numbered = [rule, *asks, " \u276f 1. Yes", "   2. Yes, and allow all", "   3. No", "", keys]
    bare = [rule, *asks, " \u276f Yes", "   Yes, and allow all of the", "     commands", "   No", "", keys]
    wide = [row.replace("1.", "  ").replace("2.", "  ").replace("3.", "  ") for row in numbered]
    # A box that is taller than the screen begins in the first column, and a chat has no keys below it.
    no_dialogs = [
        [rule, "\u276f Yes", "  No", "  and more", "", keys],
        [rule, *asks, " \u276f Yes", "   No", "", " and more"],
        [rule, *asks, " \u276f Yes", "", keys],
        [rule, *asks, " \u276f Yes", "   No", " \u276f Yes", "", keys],
    ]
    use(None)
    assert [read_screen(rows).state is State.PERMISSION for rows in (numbered, bare, wide)] == [
        True,
        False,
        False,
    ]
    use(str(own))
    box = f"{rule} name \u2500"
    for rows in (numbered, bare, wide, bare[:-2], [*numbered, box], [*bare, box], [*bare[:-2], box]):
        found = read_screen(rows)
        assert (found.state, found.what) == (State.PERMISSION, "claude asks to run a command: touch x")
    assert not [rows for rows in no_dialogs if read_screen(rows).state is State.PERMISSION]


def test_reworded_box_is_read_with_words_of_the_operator(own: Path) -> None:
    own.write_text(
        "[box.folded]\nphrases = ['(pasted {lines:word} rows)']\n[box.stashed]\ntexts = ['put aside']\n"
        "[box.refusal]\nphrases = ['*a hook refused the prompt:{words}']\n"
        "[spinner.retry]\nphrases = ['{why}; next attempt in {wait:word}*']\n"
    )
    text, rule = "[sm] from operator, message 5\none\ntwo", "\u2500" * 60
    draft = [rule, "\u276f ", rule, "  ? for shortcuts            put aside"]
    refused = ["\u276f hello", "", rule, "\u276f ", rule, "  a hook refused the prompt: not today"]
    retry = ["\u276f hello", "", "* no answer; next attempt in 4s", "", *draft[:3], "  esc to interrupt"]
    for is_own in (False, True):
        use(str(own) if is_own else None)
        reader = ClaudeBoxReader()
        assert reader.shows_message("(pasted 2 rows)", text, None) is is_own
        assert reader.contains_message("see (pasted 2 rows) too", text) is is_own
        assert reader.box(draft).stashed is is_own
        assert reader.refusal(refused, text) == (PromptRefusal("not today", False) if is_own else None)
        what = "no answer, retrying in 4s" if is_own else "claude is working"
        assert read_screen(retry).what == what


def test_new_options_and_variables_are_treated_as_the_operator_says(own: Path) -> None:
    own.write_text(
        "[options.refused.table]\n'--away' = 'it leaves'\n[options.kept.table]\n'--colour' = '1'\n"
        "[options.optional]\ntexts = ['--shout']\n[environment.never_inherited]\ntexts = ['CLAUDE_NEW']\n"
        "[environment.resumes_whole]\ntable = {CLAUDE_ASK = '0'}\n[commands.of_program]\ntexts = ['dream']\n"
    )
    adopted = ["--shout", "--colour", "red", "--model", "opus"]
    assert (resumable_arguments(adopted), "CLAUDE_ASK" in resume_environment("full")) == (
        ("--model", "opus"),
        False,
    )
    use(str(own))
    assert resumable_arguments(adopted) == ("--colour", "red", "--model", "opus")
    assert resume_environment("full")["CLAUDE_ASK"] == "0"
    with pytest.raises(UsageError, match="--away cannot be used with sm: it leaves"):
        merge_options([(None, ["--away"])])
    provider = ClaudeProvider(ClaudeSection(), [], is_root=False)
    assert {"CLAUDE_NEW", "CLAUDECODE"} <= provider.never_inherited
    assert [provider.adopts(["claude", word]) for word in ("dream", "mcp", "--verbose")] == [
        False,
        False,
        True,
    ]
    own.write_text("[options.kept.table]\n'--colour' = 'one'\n")
    with pytest.raises(ConfigError, match="the value of --colour in"):
        use(str(own))


def test_message_with_another_glyph_is_no_spinner_and_no_part_of_a_dialog(own: Path) -> None:
    own.write_text("[glyphs.message]\ntexts = ['\u25c6']\n")
    rule = "\u2500" * 60
    idle = ["\u25c6 Look\u2026", "", rule, "\u276f ", rule, "  ? for shortcuts"]
    message = [rule, "\u25c6 Pick one", " \u276f 1. Yes", "   2. No", "", " Esc to cancel"]
    use(None)
    assert read_screen(message).state is State.DIALOG
    use(str(own))
    assert (read_screen(idle).state, read_screen(message).state) == (State.IDLE, State.UNKNOWN)


def test_renamed_key_of_a_hook_is_read_by_its_new_name(own: Path) -> None:
    payload = {"hook_event_name": "UserPromptSubmit", "text_of_prompt": "look at this"}
    accepted = read_hook(payload, 1.0, expects_turn=False).accepted
    assert accepted is None or accepted.text == ""
    own.write_text('[renamed.hook]\ntable = { text_of_prompt = "prompt" }\n')
    use(str(own))
    accepted = read_hook(payload, 1.0, expects_turn=False).accepted
    assert accepted is not None
    assert accepted.text == "look at this"


def test_renamed_key_deep_in_a_hook_is_read_by_its_new_name(own: Path) -> None:
    tasks = [{"kind": "subagent", "status": "running"}, {"type": "shell", "status": "running"}, 1]
    payload = {"hook_event_name": "Stop", "work": tasks}
    own.write_text(
        '[renamed.hook]\ntable = { work = "background_tasks", "background_tasks.kind" = "type" }\n'
    )
    use(str(own))
    stopped = read_hook(payload, 1.0, expects_turn=False)
    assert stopped.observation is not None
    assert "sub-agents in the background: 1, shells in the background: 1" in stopped.observation.reason
    assert read_hook({**payload, "work": "none"}, 1.0, expects_turn=False).sub_agents == 0


def test_new_type_of_transcript_lines_is_read_as_the_known_one(own: Path) -> None:
    line = b'{"type": "model_turn", "message": {"content": [{"type": "text", "text": "hello"}]}}'
    assert facts(line) == ()
    own.write_text('[transcript.types]\ntable = { model_turn = "assistant" }\n')
    use(str(own))
    assert [fact.text for fact in facts(line) if isinstance(fact, Mark)] == ["hello"]


def test_new_tag_around_a_paste_is_removed(own: Path) -> None:
    reported = '<long_text id="f55a">\na\nb\n</long_text id="f55a">'
    assert without_paste_tags(reported) == (reported, False)
    own.write_text('[paste.tags]\ntexts = ["long_text"]\n')
    use(str(own))
    assert without_paste_tags(reported) == ("a\nb", True)
    assert without_paste_tags(reported.replace("long_text", "pasted_content")) == ("a\nb", True)


def test_printed_facts_are_a_file_that_an_operator_may_have(own: Path) -> None:
    own.write_text(ClaudeCheck().facts)
    file = use(str(own)).own_file
    assert file is not None
    assert set(file.facts) == set(SHIPPED)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "[start.trust.opton]\nphrases = ['x y z']",
            "there is no fact start.trust.opton; do you mean start.trust.option?",
        ),
        (
            "[start.trust.option]\nphrases = ['Yes, *']\nregex = 1",
            "start.trust.option has the unknown key regex",
        ),
        ("[start.trust.option]\ntexts = ['Yes']", "start.trust.option needs 'phrases', not 'texts'"),
        ("[start.trust.option]\nphrases = 'Yes'", "start.trust.option must be a list of texts"),
        ("[start.trust.option]\nphrases = ['* #']", "has fewer than 3 characters of its own"),
        ("[start.trust.option]\nphrases = ['abc *a*b*c*d*e']", "has more than 4 marks for any text"),
        (f"[start.trust.option]\nphrases = ['{'a' * 300}']", "has more than 200 characters"),
        ("[paste.newlines]\ncareful = 'two'", "paste.newlines needs values such as 2, not 'two'"),
        ("[paste.newlines]\ncareful = true", "paste.newlines needs values such as 2, not True"),
        (
            "[paste.newlines]\ncareful = 2\nvalues = [{value = 3, from = '2.1.300'}, {value = 4, until = '2.1.310'}]",
            "two values of paste.newlines contradict each other: 3 and 4",
        ),
        (
            "[paste.newlines]\ncareful = 2\nvalues = [{value = 3}]",
            "a value of paste.newlines needs a condition",
        ),
        (
            "[paste.newlines]\ncareful = 2\nvalues = [{value = 3, from = '2.1.300', until = '2.1.200'}]",
            "a value of paste.newlines is for no version: from is after until",
        ),
        (
            "[paste.newlines]\ncareful = 2\nvalues = [{value = 3, from = 'new'}]",
            "'new' in paste.newlines is not a version",
        ),
        (
            '[state.statuses]\ntable = { paused = "pausing" }',
            "the value of paused in state.statuses must be one of blocked, busy, idle",
        ),
        ("[renamed.hook]\ntable = { a = 1 }", "the value of a in renamed.hook must be like 'a text'"),
        ("[start]\ntrust = 1", "start has none of the keys phrases, texts, table, careful"),
        ("[start.trust", "is not TOML"),
    ],
)
def test_mistake_in_a_file_is_named_and_changes_nothing(own: Path, content: str, words: str) -> None:
    own.write_text(content)
    before = current()
    with pytest.raises(ConfigError, match=re.escape(words)):
        use(str(own))
    assert current() is before


def test_phrases_without_the_texts_that_sm_uses_and_small_limits_stop_no_reader(own: Path) -> None:
    own.write_text(
        '[chat.bad_model]\nphrases = ["No such model*"]\n[peer.name]\nphrases = ["*called*"]\n'
        "[paste.characters]\ncareful = 0\n[paste.newlines]\ncareful = 0\n[window.unlisted]\ncareful = 0\n"
    )
    use(str(own))
    rule = "\u2500" * 60
    assert (
        read_screen(["\u25cf No such model here", "", rule, "\u276f ", rule, "  ? for shortcuts"]).state
        is State.IDLE
    )
    peer = {"hook_event_name": "UserPromptSubmit", "prompt": "<cross-session-message called=x>hi"}
    assert read_hook(peer, 1.0, expects_turn=False).peer == ""
    text = "a line\n\n\nand another one " * 20
    assert "".join(piece for group in paste_groups(text) for piece in group).rstrip() == text.rstrip()
    assert context_window("of-nobody") > 0


def test_file_that_cannot_be_read_is_named(own: Path) -> None:
    with pytest.raises(ConfigError, match="no such file or directory"):
        read(str(own))
    own.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="invalid UTF-8"):
        read(str(own))
    own.write_text("# " + "x" * 70_000)
    with pytest.raises(ConfigError, match="is larger than 64 KiB"):
        read(str(own))
