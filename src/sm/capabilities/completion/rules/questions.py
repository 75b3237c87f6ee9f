"""Rules for questions: decisions that the agent needs, apart from offers that need no answer."""

import re
from collections.abc import Iterator

from sm.capabilities.completion.rules.message import Part, Sentence
from sm.capabilities.completion.rules.phrases import Found
from sm.capabilities.completion.rules.turn import Turn, is_harmless, is_offered, is_optional

_ADDRESSED = re.compile(
    r"\b(?:you|your|u|should i|shall i|may i|can i|should we|shall we|do i|want me|ok to|okay to|"
    r"which (?:one|of|way)|i|or)\b|"
    r"^(?:should|shall|may|which|does|do|is|are|can|could|will|would|has|have)\b"
)
_ACT = re.compile(
    r"\b(?:proceed|continue|go ahead|merge|delete|remove|drop|deploy|publish|release|push|overwrite|force|"
    r"apply it|"
    r"do it|do that|start|begin|run it|commit|approve|keep|revert|instead|or)\b"
)
_SHORT = 25


def _is_question(sentence: Sentence) -> bool:
    return sentence.part is not Part.HEADING and sentence.is_question


def _is_offer(turn: Turn, sentence: Sentence) -> bool:
    """A question that offers more work, after a message that says what is finished."""
    if turn.inquiry and is_offered(sentence.words):
        return is_harmless(sentence.words)  # the answer was the task, and the message offers to act on it
    if turn.claim is None or turn.claim.sentence.start >= sentence.start:
        return False
    behind = turn.behind(sentence)
    if any(turn.find("offer", (other,)) is None and len(other.words) > _SHORT for other in behind):
        return False  # the message goes on to say why the answer matters
    return is_optional(sentence.words)


def _questions(turn: Turn) -> Iterator[Sentence]:
    """The questions at the end of the message that wait for an answer, and those that it announces."""
    told = [sentence for sentence in turn.message.sentences if not sentence.aside or _is_question(sentence)]
    announced = turn.find("ask", told[:3]) is not None
    for sentence in reversed(told[-10:]):
        if not _is_question(sentence) or _is_offer(turn, sentence):
            continue
        if sentence.part is Part.ITEM:
            if announced or (
                not turn.inquiry and sentence.start >= told[-2].start if len(told) > 1 else True
            ):
                yield sentence
            continue
        behind = [
            other
            for other in turn.behind(sentence)
            if not _is_question(other)
            and other.part is not Part.ITEM
            and turn.find("offer", (other,)) is None
        ]
        limit = 3 if _ADDRESSED.search(sentence.words) else 2 if len(turn.languages) > 1 else 0
        if len(behind) <= limit:
            yield sentence


def offer_or_decision(turn: Turn) -> str | None:
    """An offer in the form of a question after finished work: neither a decision that is needed nor surely none."""
    questions = list(_questions(turn))
    if len(questions) == 1 and turn.done is not None:
        words = questions[0].words
        if is_offered(words) and not _ACT.search(words) and words.isascii():
            return turn.message.quote(questions[0])
    return None


def question(turn: Turn) -> str | None:
    sentence = next(_questions(turn), None)
    return None if sentence is None else turn.message.quote(sentence)


_NO_REQUEST = re.compile(r"\b(?:hard|difficult|impossible|too early|unable|can't|cannot|couldn't) (?:to )?$")


def asked(turn: Turn) -> str | None:
    told = [sentence for sentence in turn.message.sentences if not sentence.aside]
    for found in turn.phrases.find("ask", [*told[:2], *told[2:][-6:]]):
        if _is_offer(turn, found.sentence) or _NO_REQUEST.search(found.sentence.words, 0, found.start):
            continue
        offer = turn.find("offer", (found.sentence,))
        if (offer is None or offer.start > found.start) and not _answered(turn, found):
            return turn.quote(found)
    return None


def _answered(turn: Turn, found: Found) -> bool:
    """A text that was the task may contain such words: a plan, a draft."""
    return turn.inquiry and found.sentence.part is Part.ITEM
