"""The language of phrases."""

import pytest

from sm.providers.claude.dialect.phrases import PhraseList


@pytest.mark.parametrize(
    ("phrase", "text", "kept"),
    [
        ("Yes", "Yes", {}),
        ("Yes", "Yes, it is", None),
        ("Yes*", "Yes, it is", {}),
        ("*Yes", "No or Yes", {}),
        ("*Yes", "Yes or Yes", {}),
        ("a*b", "a b c b", {}),
        ("a*b", "a b c", None),
        ("# new servers", "12 new servers", {}),
        ("# new servers", "some new servers", None),
        (r"Paste \#1\*", "Paste #1*", {}),
        ("file not found: {detail}", "file not found: /a b", {"detail": "/a b"}),
        ("file not found: {detail}", "file not found: ", None),
        ("ID {id:word} is in use", "ID 12-34 is in use", {"id": "12-34"}),
        ("ID {id:word} is in use", "ID 12 34 is in use", None),
        ("ID: {id:word}*", "ID: 12-34 or so", {"id": "12-34"}),
        ("model ({model})*", "model (opus) is (not) here", {"model": "opus"}),
        ("a.c", "abc", None),
    ],
)
def test_phrase_fits_a_whole_text(phrase: str, text: str, kept: dict[str, str] | None) -> None:
    assert PhraseList((phrase,)).fit(text) == kept


def test_wrapped_text_fits_without_its_blanks() -> None:
    words = PhraseList(("No conversation found with session ID: {detail:word}*",))
    assert words.fit("No conversation foundwith sessionID: 12-34", wrapped=True) == {"detail": "12-34"}
    assert words.fit("No conversation foundwith sessionID: 12-34") is None


def test_phrase_is_found_behind_a_blank() -> None:
    words = PhraseList(("Do you want to *",))
    assert words.within("Bash command. Do you want to proceed?")
    assert not words.within("xDo you want to proceed?")


def test_places_of_phrases_are_found_from_left_to_right() -> None:
    folds = PhraseList((r"[Pasted \##]", r"[Pasted \## +{lines:word} lines]"))
    text = "see[Pasted #1] and [Pasted #22 +3 lines], [Pasted #4 +5 more lines]"
    found = [(text[place.start : place.end], place.kept) for place in folds.places(text)]
    assert found == [("[Pasted #1]", {}), ("[Pasted #22 +3 lines]", {"lines": "3"})]
    assert list(folds.places("nothing")) == []
    assert [place.start for place in PhraseList(("aba",)).places("ababa aba")] == [0, 6]


def test_time_grows_with_the_length_of_the_text_and_not_with_its_powers() -> None:
    words = PhraseList(("*aaa*aab*aac*aad",))
    text = "a" * 200_000
    assert words.fit(text) is None
