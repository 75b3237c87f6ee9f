"""Each rule of the classifier, and properties that hold for any text."""

import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm.capabilities.completion.model import QUOTE_MAX, Classification, Ending, TurnFacts
from sm.capabilities.completion.patterns import CompletionPattern
from sm.capabilities.completion.rules.ending_rules import RULES
from sm.capabilities.completion.rules.message import (
    HEAD_SENTENCES,
    SENTENCE_MAX,
    TAIL_SENTENCES,
    read_message,
)
from sm.capabilities.completion.rules.turn_end import classify

DONE = "Done. All tests passing."
WORKED = TurnFacts(tools_used=3)
FAILED = TurnFacts(tools_used=6, errors=2, last_tool_failed=True)

# rule, text, task, facts
CASES: tuple[tuple[str, str, str, TurnFacts], ...] = (
    ("provider-blocked", DONE, "", TurnFacts(failure="rate_limit")),
    ("provider-failed", DONE, "", TurnFacts(failure="server_error")),
    ("interrupted", DONE, "", TurnFacts(interrupted=True)),
    ("pending-question", DONE, "", TurnFacts(pending_question=True)),
    ("limit-or-login-text", "You've hit your session limit · resets 5:59am (UTC)", "", TurnFacts()),
    ("limit-or-login-text", "Invalid API key · Please run /login", "", TurnFacts()),
    ("api-error-text", "API Error: 500 Internal server error", "", TurnFacts()),
    ("no-words", "", "", TurnFacts()),
    ("no-words", "```\nDone. All tests passing.\n```", "Fix it", TurnFacts()),
    ("no-words", "> Done. All tests passing.", "Fix it", TurnFacts()),
    ("question-mark", "Done. Would you like me to open a pull request?", "Fix it", TurnFacts()),
    ("question-mark", "Which port should I use?", "Set up the server", TurnFacts()),
    ("question-mark", "The fix is ready. Shall I merge it?", "Fix it", TurnFacts()),
    ("blocked-statement", "I can't continue: the deploy key is missing.", "Deploy", TurnFacts()),
    (
        "asks-for-a-decision",
        "Two ways are possible. Please tell me which one to take.",
        "Fix it",
        TurnFacts(),
    ),
    ("failed-statement", "I was not able to fix it.", "Fix it", TurnFacts()),
    ("tests-or-tools-fail", "The change is made, but 3 tests still fail.", "Fix it", TurnFacts()),
    ("unfinished-work", "The parser works. Next, I'll write the printer.", "Fix it", TurnFacts()),
    ("unfinished-work", "Almost done.", "Fix it", TurnFacts()),
    ("unfinished-work", "This is not finished yet.", "Fix it", TurnFacts()),
    ("waits-for-others", "Spawned three workers. Done.", "Lead the team", TurnFacts()),
    ("part-of-the-work", "Done with step 1 of 4.", "Fix it", TurnFacts()),
    ("live-children", DONE, "Fix it", TurnFacts(live_children=2)),
    ("background-work", DONE, "Fix it", TurnFacts(background=1)),
    ("open-tasks", DONE, "Fix it", TurnFacts(open_tasks=1)),
    ("untested-or-unsure", "I changed the handler. It should work now.", "Fix it", TurnFacts()),
    (
        "doubtful-question",
        "What did I change? Only the key, and the tests still pass.",
        "Fix it",
        TurnFacts(),
    ),
    ("irony", "I'm done trying.", "Fix it", WORKED),
    ("says-nothing", "Hello, nice to meet you.", "Fix it", TurnFacts()),
    ("says-nothing", "ACK sha1=da39a3ee5e6b4b0d3255bfef95601890afd80709", "Fix it", WORKED),
    (
        "tells-of-failure",
        "The backup file is damaged, so there is nothing to restore from.",
        "Restore it",
        FAILED,
    ),
    ("some-of-all", "17 Dateien von 40 sind umgestellt.", "Stelle um", WORKED),
    ("all-but-a-part", "Done, except for the docs.", "Fix it", WORKED),
    (
        "plain-statement",
        "All tests pass.",
        "Upgrade three packages",
        TurnFacts(tools_used=9, errors=4),
    ),
    ("gave-up", "I gave up on the rebase.", "Rebase the branch", TurnFacts()),
    ("done-statement", DONE, "Fix it", TurnFacts()),
    ("done-statement", "Finished with step 4 of 4. Everything is done.", "Fix it", TurnFacts()),
    ("last-tool-failed", "I removed the flag.", "Fix it", TurnFacts(tools_used=3, last_tool_failed=True)),
    ("broken-off", "I added the flag. Its default is read from the", "Fix it", TurnFacts()),
    ("work-report", "I removed the flag and its tests. All 30 tests pass.", "Fix it", WORKED),
    ("work-report", "k, pushed", "Push it", TurnFacts()),
    (
        "answer-to-task",
        "The cache is filled at start from the database, and its entries are replaced when they change.",
        "How is the cache filled?",
        WORKED,
    ),
    ("result", "2.8 s → 45 ms", "Speed up the query", WORKED),
    ("doubtful", "I removed the flag, but something is wrong.", "Fix it", TurnFacts()),
    ("doubtful", "I removed the flag, all tests pass. You have to rotate the key.", "Fix it", TurnFacts()),
    ("doubtful", "I added a cache. I also looked at the other problem.", "Fix it", WORKED),
    ("nothing-decides", "The code looks strange.", "Fix it", TurnFacts()),
)


@pytest.mark.parametrize(("rule", "text", "task", "facts"), CASES)
def test_classifier_decides_by_the_rule(rule: str, text: str, task: str, facts: TurnFacts) -> None:
    assert classify(text, task, facts).rule == rule


def test_every_rule_has_a_case() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert {*names, "nothing-decides"} == {rule for rule, *_ in CASES} | {"user-pattern"}


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("Added the flag, all tests pass. Let me know if you want a note in the changelog.", Ending.DONE),
        ("Added the flag, all tests pass. Do you want me to also update the docs?", Ending.DONE),
        ("Added the flag. Should it be on or off by default?", Ending.QUESTION),
        ('The old log ends with "Done. All tests passing."', Ending.UNCLEAR),
        ("The test failed because of a race. I fixed it, and it passes now.", Ending.DONE),
        ("Fertig. Alle Tests sind grün.", Ending.DONE),
        ("Backfill finished: 48,211 of 48,211 rows updated, 0 failures.", Ending.DONE),
        ("Stopped all 6, nothing is running any more.", Ending.DONE),
        ("Opraveno 23 překlepů v 9 souborech.", Ending.DONE),
        ("커밋 완료했습니다. 해시는 `a41c9de`입니다.", Ending.DONE),
        ("La tâche est terminée.", Ending.DONE),
        ("¿Quieres que lo borre?", Ending.QUESTION),
        ("完成了。所有测试均已通过。", Ending.DONE),
        ("修正が完了しました。", Ending.DONE),
        ("작업을 완료했습니다.", Ending.DONE),
        ("تم إصلاح الخطأ بنجاح.", Ending.DONE),
        ("סיימתי. כל הבדיקות עוברות.", Ending.DONE),
        ("काम पूरा हो गया।", Ending.DONE),
        ("Не удалось исправить ошибку.", Ending.FAILED),
        ("これで動くはずです。", Ending.UNCLEAR),
    ],
)
def test_classifier_reads_the_ending(text: str, ending: Ending) -> None:
    assert classify(text, "Do the work", TurnFacts(tools_used=3)).ending is ending


def test_doubtful_report_quotes_the_words_that_speak_against_it() -> None:
    text = "All 46 uses are converted, and the tests are green. The API docs are not."
    found = classify(text, "Convert the code and its docs", WORKED)
    assert found == Classification(Ending.UNCLEAR, "doubtful", "The API docs are not.")


def test_optional_offer_does_not_weaken_a_report() -> None:
    report = "Added the flag and its tests, everything passes."
    offers = ("Want me to mention it in the changelog, too?", "Would you like me to update the docs as well?")
    for offer in offers:
        assert classify(f"{report} {offer}", "Add a flag", WORKED).ending is Ending.DONE
    assert classify(f"{report} Should it be on or off?", "Add a flag", WORKED).ending is Ending.QUESTION


@pytest.mark.parametrize(
    ("text", "task", "rule"),
    [
        (
            "The build fails on warnings now. It passes on main.",
            "Make the build fail on warnings",
            "work-report",
        ),
        ("The change is made, but 3 tests still fail.", "Fix the build", "tests-or-tools-fail"),
    ],
)
def test_obstacle_decides_unless_the_model_is_certain_of_done(text: str, task: str, rule: str) -> None:
    assert classify(text, task, WORKED).rule == rule


def test_only_rules_that_read_the_text_yield_to_the_model() -> None:
    assert {rule.ending for rule in RULES if rule.yields} == {
        Ending.BLOCKED,
        Ending.FAILED,
        Ending.PROGRESS,
        Ending.UNCLEAR,
    }
    facts = {"live-children", "background-work", "open-tasks", "provider-failed", "interrupted"}
    assert not facts & {rule.name for rule in RULES if rule.yields}


def test_plan_is_done_only_if_the_plan_was_the_task() -> None:
    plan = "1. Extract the interface\n2. Move the code behind it\n3. Delete the old module"
    assert classify(plan, "Write a plan for the refactoring").ending is Ending.DONE
    assert classify(plan, "Refactor the module").ending is Ending.UNCLEAR


class TestPatternsOfTheUser:
    PATTERNS = (CompletionPattern("over and out"),)

    def test_pattern_makes_a_turn_done_that_used_tools(self) -> None:
        found = classify("Over and out.", "Fix it", TurnFacts(tools_used=1), self.PATTERNS)
        assert found == Classification(Ending.DONE, "user-pattern", "Over and out.")

    def test_pattern_is_not_enough_for_a_turn_without_tools(self) -> None:
        assert classify("Over and out.", "Fix it", TurnFacts(), self.PATTERNS).ending is Ending.UNCLEAR

    @pytest.mark.parametrize(
        "text",
        [
            "The parser changed. Over and out",
            "I changed the parser. It should work now. Over and out.",
            "I removed the flag, but something is odd. Over and out.",
            "Something with the, over and out the",
            "The cache is a map of keys to rows. Over and out",
        ],
    )
    def test_pattern_outweighs_doubt_and_a_missing_full_stop(self, text: str) -> None:
        assert classify(text, "Fix #1042", WORKED).ending is Ending.UNCLEAR
        assert classify(text, "Fix #1042", WORKED, self.PATTERNS).rule == "user-pattern"

    @pytest.mark.parametrize(
        "text",
        [
            "The job died after 3 minutes. Over and out.",
            "No lo he conseguido. Over and out.",
            "Every edit is refused by the sandbox. Over and out.",
            "Done, except for the docs. Over and out.",
            "Next, I'll write the printer. Over and out.",
            "I was not able to fix it. Over and out.",
            "Which port should I use? Over and out.",
            "```\nover and out\n```",
        ],
    )
    def test_pattern_does_not_outweigh_another_rule(self, text: str) -> None:
        found = classify(text, "Fix it", TurnFacts(tools_used=1), self.PATTERNS)
        assert found.ending is not Ending.DONE


_WORDS = [
    "done",
    "not",
    "step 1 of 4",
    "?",
    "`a`",
    '"',
    "```\n",
    "\n\n",
    "| a |",
    "> ",
    "- [ ] ",
    "完成了。",
    "هل",
    "…",
    "’",
]
_TEXTS = st.one_of(st.text(max_size=400), st.lists(st.sampled_from(_WORDS), max_size=60).map(" ".join))
_FACTS = st.builds(
    TurnFacts,
    tools_used=st.integers(0, 3),
    errors=st.integers(0, 3),
    last_tool_failed=st.booleans(),
    open_tasks=st.integers(0, 2),
    pending_question=st.booleans(),
    live_children=st.integers(0, 2),
    background=st.integers(0, 2),
    interrupted=st.booleans(),
    failure=st.none() | st.sampled_from(["rate_limit", "unknown"]),
)


@given(_TEXTS, st.text(max_size=60), _FACTS)
def test_classifier_quotes_the_text_and_is_deterministic(text: str, task: str, facts: TurnFacts) -> None:
    found = classify(text, task, facts)
    assert found == classify(text, task, facts)
    assert found.quote in text
    assert len(found.quote) <= QUOTE_MAX
    assert "\n" not in found.quote


@given(_TEXTS, _FACTS)
def test_turn_that_is_not_finished_is_never_done(text: str, facts: TurnFacts) -> None:
    if classify(text, "Fix it", facts).ending is Ending.DONE:
        assert facts.failure is None
        assert not (facts.interrupted or facts.pending_question)
        assert facts.live_children == facts.background == facts.open_tasks == 0


def calls(text: str) -> int:
    """The number of functions, of Python and of C, that a classification calls."""
    made = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        classify(text, "Fix it", TurnFacts(tools_used=1))
    finally:
        sys.setprofile(before)
    return made


_REPEATED = [
    "word ",
    "Done. ",
    "a\n",
    "- [x] item\n\n",
    "`",
    '"',
    "“",
    ".",
    "?! ",
    "```\n",
    "| a | b |\n",
    "完成了。",
    " ",
    "\u0301",
    "（",
]


@pytest.mark.parametrize("part", _REPEATED)
def test_classifier_makes_calls_in_proportion_to_the_length(part: str) -> None:
    half = (part * 25_000)[:25_000]
    calls(half)  # compiles the expressions of the languages
    assert calls(half + half) <= 2.2 * calls(half) + 200


@pytest.mark.parametrize("part", _REPEATED)
def test_rules_see_a_bounded_part_of_a_long_message(part: str) -> None:
    sentences = read_message((part * 50_000)[:50_000]).sentences
    assert len(sentences) <= HEAD_SENTENCES + TAIL_SENTENCES
    assert all(len(sentence.words) <= SENTENCE_MAX for sentence in sentences)


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("The docs build no longer fails. A tab character in `nav:` was the cause.", "Fix the failing build"),
        (
            "Bundle: 512 kB → 187 kB. A size check in CI fails above 200 kB. All tests pass.",
            "Reduce the bundle to below 200 kB",
        ),
        (
            "I ran the suite: 1,022 passed, 4 failed. All four failures are in `test_pdf.py`.",
            "Run the tests and report",
        ),
        (
            "480 件を実行し、476 件成功、4 件失敗でした。失敗はすべて `test_mail.py` です。",
            "テストを実行して結果を報告して",
        ),
    ],
)
def test_failure_that_is_over_or_conditional_or_asked_for_is_not_failed(text: str, task: str) -> None:
    assert classify(text, task, TurnFacts(tools_used=4)).ending is not Ending.FAILED


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("The settings are rewritten. The last run ended red.", "Fix the nightly build"),
        ("The button is in place. There was no device to try it on.", "Add the payment button"),
        ("Home e prodotti sono tradotti. Sto passando al blog.", "Traduci il sito"),
    ],
)
def test_words_that_leave_the_work_open_are_not_done(text: str, task: str) -> None:
    assert classify(text, task, TurnFacts(tools_used=4)).ending is not Ending.DONE


@pytest.mark.parametrize(
    "text",
    [
        "The job died after 3 minutes.",
        "This can't be done.",
        "I rolled it back.",
        "Every edit is refused by the sandbox.",
        "I'm done trying.",
        "Hello! How are you today",
        "ACK sha1=da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "No lo he conseguido.",
        "Ich habe es nicht geschafft.",
        "Je n'ai pas réussi.",
        "Non ce l'ho fatta.",
        "Não deu certo.",
        "Listo, salvo la página de ajustes.",
        "Once the tests pass, this is done.",
    ],
)
@pytest.mark.parametrize("facts", [TurnFacts(), WORKED, FAILED], ids=["no facts", "worked", "failed"])
def test_failure_in_plain_words_or_words_without_a_claim_are_not_done(text: str, facts: TurnFacts) -> None:
    for task in ("Fix #1042", "Update the README", "Corrige la página", ""):
        assert classify(text, task, facts).ending is not Ending.DONE


PLAIN = [
    "Done. All tests passing.",
    "All tests pass.",
    "Done.",
    "Fixed. All tests pass.",
    "The bug is fixed and all tests pass.",
    "Fixed and pushed; the tests are green.",
    "Fertig. Alle Tests laufen durch.",
    "Hecho. Todas las pruebas pasan.",
    "C'est fait, tous les tests passent.",
]


@pytest.mark.parametrize("text", PLAIN)
def test_number_or_name_in_the_task_does_not_stop_a_plain_completion(text: str) -> None:
    for task in ("Update the README", "Fix #1042", "Behebe Fehler 4711", "Upgrade 14 packages"):
        for front in ("", "Fix #1042: ", "PROJ-77: ", "[web] ", "Anna, please ", "3. ", "Hola, "):
            assert classify(text, f"{front}{task}", WORKED).ending is Ending.DONE, f"{front}{task}"


@pytest.mark.parametrize("text", [*PLAIN, *(text for _, text, *_ in CASES)])
def test_more_uses_of_tools_never_count_against_done(text: str) -> None:
    endings = [classify(text, "Fix it", TurnFacts(tools_used=n)).ending for n in (0, 1, 40)]
    assert endings[1] is endings[2]
    assert endings[0] is not Ending.DONE or endings[1] is Ending.DONE
