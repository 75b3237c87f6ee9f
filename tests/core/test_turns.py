"""The work of an agent in its turn, as hooks and transcripts tell it."""

from sm.core.turns import TurnWork

OTHER = TurnWork("Fix the parser", tools_used=9, errors=2, last_tool_failed=True, whole=True)


def test_new_turn_keeps_the_task_only_if_its_prompt_gives_none() -> None:
    assert OTHER.begin(None) == TurnWork("Fix the parser", whole=True)
    assert OTHER.begin("Push it").last_task == "Push it"
    assert OTHER.add_task("Push it").begin(None).last_task == "Push it"


def test_last_use_of_a_tool_decides_whether_it_failed() -> None:
    work = TurnWork().start_tool().end_tool(failed=True)
    assert (work.tools_used, work.errors, work.last_tool_failed) == (1, 1, True)
    work = work.start_tool().end_tool(failed=False)
    assert (work.tools_used, work.errors, work.last_tool_failed) == (2, 1, False)


def test_whole_work_of_hooks_ignores_the_counts_of_an_earlier_turn_in_the_transcript() -> None:
    hooks = TurnWork("Push it", tools_used=1, last_tool_failed=False, whole=True)
    assert hooks.completed_by(OTHER) == hooks
    assert TurnWork(whole=True).completed_by(OTHER).last_task == "Fix the parser"


def test_transcript_fills_in_what_the_hooks_of_this_daemon_missed() -> None:
    hooks = TurnWork(tools_used=1, errors=1, last_tool_failed=False)
    assert hooks.completed_by(OTHER) == TurnWork(
        "Fix the parser", "", 9, 2, last_tool_failed=False, whole=True
    )
    assert TurnWork().completed_by(OTHER) == OTHER


def test_message_within_the_turn_is_known_from_the_transcript_of_the_same_turn() -> None:
    hooks = TurnWork("Fix the parser", tools_used=9, whole=True)
    assert hooks.completed_by(OTHER.add_task("Also push it")).last_task == "Also push it"
    assert TurnWork("Push it", whole=True).completed_by(OTHER.add_task("more")).last_task == "Push it"
