"""The recordings of the real claude: their shapes, their text, and how they differ."""

from tests.recorder import lines_of
from tests.recordings import KINDS, RECORDINGS, differences, merged, shapes_of, text_of

STOP = {"hook_event_name": "Stop", "session_id": "0b0e7c1e", "tasks": [{"status": "running", "n": 1}]}
BARE = {"hook_event_name": "Stop", "session_id": "0b0e7c1f", "tasks": []}


def test_shape_has_no_text_of_a_test_but_the_words_of_claude() -> None:
    assert sorted(lines_of({**STOP, "files": {"/tmp/a b": True}})) == [
        ("", "object"),
        (".files", "object"),
        (".files.*", "true or false"),
        (".hook_event_name", "`Stop`"),
        (".session_id", "text"),
        (".tasks", "list"),
        (".tasks[]", "object"),
        (".tasks[].n", "number"),
        (".tasks[].status", "`running`"),
    ]


def test_path_is_optional_only_where_what_holds_it_lacks_it() -> None:
    shape = merged([lines_of(STOP), lines_of(BARE)])
    assert shape[".session_id"] == (True, frozenset({"text"}))
    assert shape[".tasks[]"] == (False, frozenset({"object"}))
    assert shape[".tasks[].n"] == (True, frozenset({"number"}))


def test_shapes_survive_their_text() -> None:
    shapes = {"Stop": merged([lines_of(STOP), lines_of(BARE)]), "blocked: a login": {}}
    assert shapes_of(text_of(shapes)) == shapes


def test_differences_name_what_is_new_and_what_is_gone() -> None:
    recorded = {"Stop": merged([lines_of(STOP), lines_of(BARE)]), "SessionEnd": merged([lines_of({})])}
    changed = {**STOP, "session_id": 7, "extra": None}
    seen = {"Stop": merged([lines_of(changed), lines_of({"hook_event_name": "Stop"})])}
    assert list(differences(recorded, seen)) == [
        "- SessionEnd: never seen",
        "+ Stop: .extra null",
        "+ Stop: .session_id number; recorded: text",
        "- Stop: .tasks is not in each one",
    ]


def test_optional_path_that_is_missing_is_no_difference() -> None:
    recorded = {"Stop": merged([lines_of(STOP), lines_of(BARE)])}
    assert list(differences(recorded, {"Stop": merged([lines_of(BARE)])})) == []


def test_repository_has_a_recording_of_each_kind() -> None:
    for kind in KINDS:
        text = (RECORDINGS / f"{kind}.txt").read_text(encoding="utf-8")
        assert text_of(shapes_of(text)) == text
