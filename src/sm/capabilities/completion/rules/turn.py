"""A finished turn as the rules see it: its final message, its task, and the claims of the message."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import Self

from sm.capabilities.completion.model import TurnFacts
from sm.capabilities.completion.patterns import CompletionPattern
from sm.capabilities.completion.rules.features import Weighed, plain_task, weigh
from sm.capabilities.completion.rules.message import FinalMessage, Sentence, read_message
from sm.capabilities.completion.rules.phrases import Found, Phrases, is_inquiry
from sm.capabilities.completion.rules.words import Words, languages
from sm.core.dataclass import dataclass

_OFFERED = re.compile(
    r"\b(?:would you like|do you want|(?:you )?want me|shall i|should i|may i|can i|need me to|do you need|"
    r"interested in|"
    r"soll ich|möchten sie|möchtest du|willst du|voulez-vous|souhaitez-vous|veux-tu|quieres|quieras|"
    r"desea[s]?|quer que|"
    r"gostaria|vuoi|desideri|wil je|zal ik|vill du|vil du|chcesz|хотите|хочешь|ister misin\w*|chceš)\b|"
    r"您(?:希望|想|需要)|要我|ましょうか|しますか|할까요|드릴까요|क्या मैं|هل تريد"
)
_MORE = re.compile(
    r"\b(?:also|too|as well|anything (?:else|more|further)|something else|the same|same for|further|"
    r"additional(?:ly)?|"
    r"another|others?|follow-?up|else|auch|noch|sonst|aussi|également|autre chose|también|algo más|também|"
    r"mais alguma|"
    r"anche|altro|ook|också|även|też|również|coś jeszcze|также|ещё|еще|ayrıca|başka|také|ještě)\b|"
    r"也|还需要|其他|他に|ほかに|ついでに|추가로|다른|(?<!\S)भी|أيضًا|أيضا|גם"
)
_CANNOT_BE_UNDONE = re.compile(
    r"\b(?:merge|delete|remove|drop|deploy|publish|release|push|overwrite|force|"
    r"lösch\w*|überschreib\w*|veröffentlich\w*|supprim\w*|fusionn\w*|publi\w*|borr\w*|elimin\w*|"
    r"despleg\w*|apag\w*|"
    r"exclu\w*|cancell\w*|verwijder\w*|radera|slett\w*|usun\w*|удал\w*|sil\w*|smaz\w*|oder|ou|oppure|lub|"
    r"czy|или|eller)\b|"
    r"删除|発行|削除|삭제|حذف|还是|それとも|아니면"
)
_CHOICE = re.compile(r"\b(?:or|instead|which|first)\b")
_ANY_MORE = re.compile(
    r"^\W*(?:is there )?(?:anything|something) else\b|^\W*what(?:'s| is) next\b|^\W*sonst noch"
)
_REQUEST = re.compile(
    r"(?:hey |hi |please |ok )*(?:can|could|would|will) (?:you|we)\b|kannst du|können sie|könntest du|"
    r"könnten sie|"
    r"peux-tu|"
    r"pouvez-vous|pourriez-vous|¿?(?:puedes|puede|podrías)|(?:você )?pode(?:ria)?\b|puoi|kun je|kan je|"
    r"możesz|можешь|можете|"
    r"kan du|můžeš|[^?]{0,80}(?:mısın|misin|musun|müsün)|"
    r"هل يمكنك|क्या आप|能不能|可以帮|你能|"
    r"[^?]{0,60}(?:ていただけ|てくれ|てもらえ)|"
    r"[^?]{0,60}(?:줄래|주세요|줄 수)"
)
_AND_CHANGE = re.compile(
    r"\b(?:and|then|und|et|y|e|en|i|и)\b (?:then )?(?:fix|implement|repair|apply|change|add|remove|delete|"
    r"update|"
    r"commit|push|merge|behebe|repariere|corrige|arregla|corrija|correggi|napraw|исправь|open a pr|deploy|"
    r"refactor|"
    r"replace|write the code|migrate)\b"
)
_RUN_AND_REPORT = re.compile(
    r"(?:please |now |just |try to )*(?:re-?)?(?:run|execute|start|try|check|test|lint|reproduce)\b"
    r".*(?:\b(?:and|then) (?:report|tell|show|list|post|say|send|let me know|give me|summari[sz]e|write up)\b)|"
    r"(?:please |try to )*reproduce\b|"
    r".*\b(?:und (?:berichte|melde|sag)|et (?:dis|rapporte|signale)|y (?:dime|informa|reporta)|"
    r"и (?:сообщи|доложи|расскажи))|"
    r".*(?:報告して|教えて|告诉我|汇报|報告結果|보고해|알려)",
    re.DOTALL,
)
"""Tasks whose result is what a command or a test shows, also when it fails."""

_LANGUAGE_SAMPLE = 4
"""Sentences at the begin and at the end of a message from which its languages are known."""
FIRST, LAST = 6, 14
"""Sentences at the begin and at the end of a message that can decide."""


def is_offered(words: str) -> bool:
    """Detect a question that offers to do something, be it optional or a decision that is needed."""
    return _OFFERED.search(words) is not None


def is_optional(words: str) -> bool:
    """Detect an offer of more work that can be left without an answer."""
    if _ANY_MORE.search(words):
        return True
    return bool(_MORE.search(words) and is_offered(words) and is_harmless(words))


def is_harmless(words: str) -> bool:
    """Detect an offer of something that can be undone, and no choice."""
    return not _CANNOT_BE_UNDONE.search(words) and _CHOICE.search(words) is None


@dataclass(frozen=True)
class Turn:
    """All that the rules may look at."""

    message: FinalMessage
    task: str
    facts: TurnFacts
    patterns: Sequence[CompletionPattern]
    languages: Sequence[Words] = field(default=())

    @classmethod
    def of(cls, text: str, task: str, facts: TurnFacts, patterns: Sequence[CompletionPattern] = ()) -> Self:
        """The turn with the final message `text`."""
        message = read_message(text)
        told = message.sentences
        sample = told[:_LANGUAGE_SAMPLE] + told[_LANGUAGE_SAMPLE:][-_LANGUAGE_SAMPLE:]
        known = languages(" ".join(sentence.words for sentence in sample))
        return cls(message, plain_task(task), facts, patterns, known)

    @cached_property
    def phrases(self) -> Phrases:
        """Finds phrases in the sentences of the message."""
        return Phrases(self.languages)

    @cached_property
    def sentences(self) -> Sequence[Sentence]:
        """The sentences that can decide: those at the begin and at the end, outside of asides."""
        return self._around(FIRST, LAST)

    @cached_property
    def ends(self) -> Sequence[Sentence]:
        """The sentences that speak about the whole work."""
        return self._around(3, 8)

    @cached_property
    def inquiry(self) -> bool:
        """The task asks for a text, such as an explanation or a plan, and not for a change."""
        task = self.task.strip().lower()[:400]
        if not task or _AND_CHANGE.search(task):
            return False
        if _RUN_AND_REPORT.match(task):
            return True
        asked = task.endswith(("?", "？", "؟")) and not _REQUEST.match(task)
        return asked or is_inquiry(languages(task), task)

    @cached_property
    def weighed(self) -> Sequence[Weighed]:
        """The sentences with their features, without offers of more work."""
        told = [one for one in self.message.sentences if not (one.is_question and is_optional(one.words))]
        return weigh(told, self.phrases, self.inquiry)

    @cached_property
    def claim(self) -> Found | None:
        """The first sentence that says that the work, or a piece of it, is finished."""
        return self.done or self.work

    @cached_property
    def done(self) -> Found | None:
        return next((found for found in self._done_claims() if _is_whole(found)), None)

    @cached_property
    def work(self) -> Found | None:
        undo = _UNDO.search(self.task.lower()) is not None
        for found in self.phrases.claims("work", self.sentences):
            if (undo or not _UNDO.search(found.words)) and not _is_conditional(found):
                return found
        return next(self._done_claims(), None) or self._echo()

    @property
    def is_conditional(self) -> bool:
        """The message begins with a condition."""
        return bool(self.sentences) and _CONDITION.match(self.sentences[0].words) is not None

    def claimed(self, sentence: Sentence) -> bool:
        """The sentence says that work is finished, or shows it."""
        claims = [*self.phrases.claims("done", (sentence,)), *self.phrases.claims("work", (sentence,))]
        return any(not _is_conditional(found) for found in claims)

    def _done_claims(self) -> Iterator[Found]:
        claims = self.phrases.claims("done", self.ends)
        return (found for found in claims if not _is_conditional(found))

    def _echo(self) -> Found | None:
        """The verb of the task in the past tense as the first word: `Reproduce issue 512`, `Reproduced.`"""
        verb = _FIRST_WORD.match(self.task.lower())
        for sentence in self.sentences[:1]:
            said = _FIRST_WORD.match(sentence.words)
            if verb and said and said.group(1) in _past_tenses(verb.group(1)):
                return Found(sentence, said.start(1), said.end(1))
        return None

    def find(self, kind: str, sentences: Sequence[Sentence]) -> Found | None:
        return next(self.phrases.find(kind, sentences), None)

    def quote(self, found: Found) -> str:
        return self.message.quote(found.sentence, found.start)

    def behind(self, sentence: Sentence) -> Sequence[Sentence]:
        """The sentences after `sentence`."""
        return [other for other in self.message.sentences if other.start > sentence.start]

    def _around(self, first: int, last: int) -> Sequence[Sentence]:
        told = [sentence for sentence in self.message.sentences if not sentence.aside]
        return told if len(told) <= first + last else [*told[:first], *told[-last:]]


_UNDO = re.compile(r"\b(?:revert|roll(?:ed)?[ -]?back|restor|undo|undid|back(?:ed)? out)\w*")
_THING = re.compile(r"(?:is|are|has been|have been)\b")
_WHOLE = re.compile(
    r"(?:^|\b(?:everything|all|it|this|that|task|tasks|work|job|ticket|issue|implementation|migration|"
    r"refactoring|"
    r"refactor|feature|port|upgrade|update|fix|review|audit|analysis|clean-?up)(?: \w+)?)\W*$"
)


def _is_whole(found: Found) -> bool:
    """`The pipeline is complete` tells of a piece of the work, `the task is complete` of the whole."""
    if not _THING.match(found.words):
        return True
    return _WHOLE.search(found.sentence.words[: found.start]) is not None


_CONDITION = re.compile(
    r"(?:once|as soon as|if|unless|provided|assuming|sobald|falls|wenn|dès que|si|en cuanto|una vez que|cuando|"
    r"quand|appena|quando|когда|если)\b"
)


def _is_conditional(found: Found) -> bool:
    """`Once the tests pass, this is done.`"""
    return found.start > 0 and _CONDITION.match(found.sentence.words) is not None


_FIRST_WORD = re.compile(r"(?:please |i |i've )?([a-z-]{3,})\b")


def _past_tenses(verb: str) -> tuple[str, ...]:
    return (f"{verb}ed", f"{verb}d", f"{verb}{verb[-1]}ed", f"{verb[:-1]}ied")
