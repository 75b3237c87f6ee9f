"""Rules for turns that did not finish the work: obstacles, failures, and work that is left or done by others."""

import re

from sm.capabilities.completion.rules.phrases import Found
from sm.capabilities.completion.rules.turn import Turn


def blocked(turn: Turn) -> str | None:
    for found in turn.phrases.find("blocked", turn.ends):
        if (
            turn.inquiry
            and not re.search(r"\b(?:i|i'm|me|my|ich|je|no puedo)\b", found.sentence.words)
            and found.words.isascii()
        ):
            continue
        if not _recovered(turn, found):
            return turn.quote(found)
    return None


_GAVE_UP = re.compile(
    r"^(?:(?:so|sadly|unfortunately|in the end|eventually|finally),? )*(?:i|we)(?: have|'ve|'m| am)? "
    r"(?:gave|given|giving) up\b|"
    r"^(?:gave|given|giving) up\b"
)


def gave_up(turn: Turn) -> str | None:
    for sentence in turn.ends:
        if _GAVE_UP.search(sentence.words):
            return turn.message.quote(sentence)
    return None


def failed(turn: Turn) -> str | None:
    found = turn.find("failed", turn.ends)
    return None if found is None else turn.quote(found)


def failing(turn: Turn) -> str | None:
    """A failure that no later words call repaired. In an answer it is what the task asked about."""
    if turn.inquiry:
        return None
    for found in turn.phrases.find("failing", turn.ends):
        before = found.sentence.words[: found.start + 1]
        behind = found.sentence.words[found.end :]
        conditional = _CONDITION.search(before) or _CONDITION_BEHIND.match(behind)
        if not conditional and not _recovered(turn, found):
            return turn.quote(found)
    return None


_CONDITION = re.compile(
    r"\b(?:if|when|whenever|in case|before|until|unless|would|could|may|might|can|had|used to|no longer|"
    r"resumes?|retr(?:y|ies)|detects?)\b[^.;:]*$"
)
_CONDITION_BEHIND = re.compile(
    r"[^.;:,]*\b(?:if|when|whenever|unless|above|below|silently|as (?:it|they) should|as expected|"
    r"as (?:you )?(?:asked|agreed|requested))\b"
)


def _recovered(turn: Turn, found: Found) -> bool:
    later = turn.phrases.claims("work", [found.sentence, *turn.behind(found.sentence)])
    return any(claim.sentence.start > found.sentence.start or claim.start >= found.end for claim in later)


# Unfinished work

_BEGINS = re.compile(r"\w+ing\b|next\b|then\b|now\b|on to\b")
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i'll|i've|me|my|let|so far)\b")


def unfinished(turn: Turn) -> str | None:
    for found in turn.phrases.find("unfinished", turn.sentences):
        words = found.sentence.words
        if turn.inquiry and words.isascii() and not _FIRST_PERSON.search(words) and not _BEGINS.match(words):
            continue  # the answer tells what is left of the thing it was asked about
        if turn.find("offer", (found.sentence,)) is None:
            return turn.quote(found)
    return None


def waiting(turn: Turn) -> str | None:
    if turn.inquiry and not turn.facts.live_children:
        return None
    for found in turn.phrases.find("waiting", turn.sentences):
        if not _NOBODY.search(found.sentence.words, 0, found.start):
            return turn.quote(found)
    return None


_NOBODY = re.compile(r"\b(?:nothing|none|nobody|no one|no longer) (?:of them )?$")


_AMOUNTS = re.compile(r"\d+|\b(?:one|two|three|four|five|six|seven|eight|nine|ten)\b")
_NOTHING_LEFT = re.compile(r"\b(?:no|zero|nothing|none|0)\b[^.;]*\bremain")
_ALL_OF = re.compile(r"\b(\d{1,3}(?:[,.' ]\d{3})+) (?:of|/) (?:the )?\1(?!\d)")
_PAST = re.compile(r"\b(?:had|previously)\b")
_WORDS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def partial(turn: Turn) -> str | None:
    if turn.inquiry:
        return None
    for found in turn.phrases.find("partial", turn.sentences):
        words = found.sentence.words
        over = (
            _is_whole(found.words)
            or _PAST.search(words)
            or _NOTHING_LEFT.search(words)
            or _ALL_OF.search(words)
        )
        if not over and turn.find("offer", (found.sentence,)) is None:
            return turn.quote(found)
    return None


def _is_whole(words: str) -> bool:
    """`4 of 4` is everything."""
    amounts = [int(word) if word.isdigit() else _WORDS.index(word) for word in _AMOUNTS.findall(words)[:2]]
    return len(amounts) == 2 and (amounts[0] == amounts[1] or amounts[1] == 0)


def live_children(turn: Turn) -> str | None:
    return turn.message.first_words if turn.facts.live_children > 0 else None


def background(turn: Turn) -> str | None:
    return turn.message.first_words if turn.facts.background > 0 else None


def open_tasks(turn: Turn) -> str | None:
    return turn.message.first_words if turn.facts.open_tasks > 0 else None
