"""Features of a final message, its sentences and its task: what the model weighs."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from sm.capabilities.completion.model import TurnFacts
from sm.capabilities.completion.rules.concepts import terms
from sm.capabilities.completion.rules.message import FinalMessage, Sentence, lowered
from sm.capabilities.completion.rules.phrases import Phrases
from sm.core.dataclass import dataclass

TASK_MAX = 400
"""Characters of a task that are weighed."""
_NUMBERED = (
    r"(?:fix(?:es)?|issue|ticket|bug|task|case|pr|mr|gh|close[sd]?|resolves?|re|behebe|corrige|aufgabe|"
    r"tarea|tâche)"
)
_IN_FRONT = re.compile(
    rf"\s*(?:\[[^\[\]\n]{{1,30}}\]\s*[:–—-]?|(?:{_NUMBERED}\s+)?"
    rf"(?:#\d{{1,9}}|[a-z]{{2,10}}-\d{{1,7}}|\d{{1,9}})\s*[:–—-]|"
    r"\(#?\d{1,9}\)|\d{1,3}[.)]|@[\w-]{1,40}[,:]?|(?!https?:)[^\W\d_]{1,20}(?: [^\W\d_]{1,20})?:(?=\s)|"
    r"(?:hi|hey|hello|hallo|hola|bonjour|salut|liebe[rs]?|dear)(?: [^\W\d_]{1,20}){0,2}[,!]|"
    r"[^\W\d_]{2,20},(?= (?:please|bitte|por favor|s'il te plaît|can you|could you|kannst du|puedes|peux-tu)\b))\s*",
    re.IGNORECASE,
)
_IN_FRONT_MAX = 3
_IDS = re.compile(
    r"#\d{1,9}|\b[a-z]{2,10}-\d{1,7}\b|\bhttps?://\S{1,200}|"
    r"\b(?:issue|ticket|bug|task|case|pr|mr|version|port|line|step|chapter|release|python|node|java|django|http|"
    r"fehler|aufgabe|zeile|tarea|error|erreur|ligne)\s+#?v?\d[\d.]{0,12}|\bv?\d{1,4}(?:\.\d{1,4}){1,3}\b|\b\d{4,}\b",
    re.IGNORECASE,
)
FIRST, LAST = 12, 20
"""Sentences at the begin and at the end of a message that are weighed."""
_NO_FEATURES = frozenset({"inquiry", "unless"})
"""Kinds of phrases that mean nothing alone."""
_SPAN_OF_NEGATION = 3
_FENCED = re.compile(r"```[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_FENCED_MAX = 300
_FENCED_LOOKED_AT = 4_000
_WORD = re.compile(r"\w+")
_REPAIR = re.compile(
    r"\b(?:fix|repair|solve|resolve|make|get|stop|behebe|repar|corrig|arregla|napraw|исправ)|修|直|고쳐"
)
_DIGIT = re.compile(r"\d")
_AMOUNT = re.compile(
    r"(\d+) *(?:[^\W\d]{3,20} )?(?:of|/|out of|von|de|sur|di|z|av|van|из|中) *(?:the |all |den |las |los )?(\d+)"
)
_FAILURES = re.compile(r"\b[1-9]\d* (?:tests? )?(?:fail(?:ed|ing|ures?|s)?|errors?|broken|red)\b")
_OVER = re.compile(r"\b(?:before|previously|was|were|had|used to|fixed|earlier|instead of|from|down)\b")
_ALL = re.compile(
    r"\b(?:all|every|everything|each|both|alle[nrs]?|jede\w*|tous|toutes|chaque|todos|todas|cada|tutti|tutte|ogni|"
    r"wszystkie|všechny|все|всех|всі|tüm|bütün|alla|semua|tất cả)\b|"
    r"全部|所有|すべて|全て|모든|모두|جميع|همه|सभी"
)
_PARTS = re.compile(r"\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve)\b")
_IMPROVED = re.compile(
    r"\bfrom \d[^.;]{0,40} to \d|\bvon \d[^.;]{0,40} auf \d|\bde \d[^.;]{0,40} (?:à|a) \d|\d[^.;]{0,12}(?:→|->|=>) ?\d|"
    r"\d[^.;\n]{0,60}\b(?:before|was|were|took|instead of|down from|up from|vorher|statt|zuvor|antes|avant|au lieu)\b"
)
_CREATE = re.compile(
    r"(?:please |bitte |por favor )?(?:write|draft|prepare|create|compile|generate|produce|make|turn|schreib|erstell|"
    r"bereite|verfass|entwirf|erzeug|rédige|prépare|écri|crée|génère|fais|escrib|prepara|redact|crea|genera|haz)"
)
_TASK_LOOKED_AT = 60
_LENGTHS = (12, 30, 80, 200, 500, 1_200)
_COUNTS = (1, 2, 4, 8)
_MANY_ERRORS = 3
_SUCCESS = ("#done", "#change", "#pass")
_DOUBTS = ("#fail", "#cannot", "#not", "#remain", "#yet", "#wait", "#next", "#will", "#need", "#doubt")


def plain_task(task: str) -> str:
    """`task` without what stands in front of it, such as `Fix #1042: `, `[web]` or a name."""
    text = task.strip()
    for _ in range(_IN_FRONT_MAX):
        front = _IN_FRONT.match(text)
        if front is None or front.end() == len(text):
            break
        text = text[front.end() :]
    return text


def without_numbers(task: str) -> str:
    """The begin of a task in which numbers of issues, versions and addresses are missing: they say nothing of it."""
    return _IDS.sub(" ", task[:TASK_MAX])


@dataclass(frozen=True, slots=True)
class Weighed:
    """A sentence with its features, each with the place of its last occurrence in the sentence."""

    sentence: Sentence
    features: Mapping[str, int]


def weigh(told: Sequence[Sentence], phrases: Phrases, inquiry: bool) -> Sequence[Weighed]:
    """The sentences of a message with their features. `inquiry`: the task asks for a text."""
    if len(told) > FIRST + LAST:
        told = [*told[:FIRST], *told[-LAST:]]
    last = len(told) - 1
    asked = "answer" if inquiry else "change"
    found = []
    for number, sentence in enumerate(told):
        position = ("F" if number == 0 else "") + ("L" if number == last else "") or "M"
        features: dict[str, int] = {asked: 0, f"at {position}": 0, f"part {sentence.part.value}": 0}
        _add_words(features, sentence, "A" if sentence.aside else position)
        for kind, start in phrases.first(sentence).items():
            if kind not in _NO_FEATURES:
                features[f"says {kind}"] = start
                if number == 0:
                    features[f"says {kind} first"] = start
                if number == last:
                    features[f"says {kind} last"] = start
        found.append(Weighed(sentence, features))
    return found


def of_message(
    message: FinalMessage, sentences: Sequence[Weighed], task: str, inquiry: bool, facts: TurnFacts
) -> Collection[str]:
    """The features of the whole message, its task and the facts of its turn."""
    found: set[str] = set()
    for weighed in sentences:
        found.update(weighed.features)
    found.update(_of_output(message.text))
    found.update(_of_task(task, found, lowered(message.text[:_FENCED_LOOKED_AT])))
    told = message.sentences
    offer = sentences and sentences[-1].sentence is not told[-1]
    end = (sentences[-1].sentence.words if offer else message.text.rstrip())[-1:]
    found.add(f"ends with {'a' if end.isalnum() else end}")
    length = _step(len(message.text), _LENGTHS)
    found.add(f"length {length}")
    found.add(f"length {length} of {'an answer' if inquiry else 'a report'}")
    found.add(f"sentences {_step(len(sentences), _COUNTS)}")
    found.update(_of_facts(facts, inquiry))
    found.update(_of_result(message, task))
    found.update(_of_concepts(found))
    return found


def _of_concepts(found: Collection[str]) -> Iterator[str]:
    """How many kinds of doubt a message has, and whether it tells of success: the same in every language."""
    doubts = sum(concept in found for concept in _DOUBTS)
    success = sum(concept in found for concept in _SUCCESS)
    yield f"doubts {min(doubts, 3)}"
    yield f"success {success}, doubts {min(doubts, 2)}"


def _add_words(found: dict[str, int], sentence: Sentence, position: str) -> None:
    before, concept, negated = "^", "^", 0
    if _DIGIT.search(sentence.words):
        _add_amounts(found, sentence.words)
    for term, place in terms(sentence.words):
        word = term.text
        found[word] = found[f"{before} {word}"] = place
        if term.stem:
            found[term.stem] = place
        before = word
        if term.concepts:
            for new, tag in term.concepts:
                found[tag] = found[f"{new}@{position}"] = found[f"{concept}>{new}"] = place
                if negated:
                    found[f"not {tag}"] = place
            concept = term.concepts[0][0]
            negated = _SPAN_OF_NEGATION if concept in ("not", "none") else max(0, negated - 1)
        elif term.is_mark:
            concept, negated = ",", 0
        elif negated:
            negated -= 1
    found[f"{before} $"] = found[f"{concept}>${position}"] = 0


def _add_amounts(found: dict[str, int], words: str) -> None:
    for amount in _AMOUNT.finditer(words):
        found["all of them" if amount[1] == amount[2] else "a part of them"] = amount.start()
    failures = _FAILURES.search(words)
    if failures is not None:
        found["past failures" if _OVER.search(words) else "failures"] = failures.start()


def _of_output(text: str) -> Iterator[str]:
    """Words of the last output of a command that the message quotes."""
    for output in _FENCED.findall(text[-_FENCED_LOOKED_AT:])[-2:]:
        for term, _ in terms(lowered(output[-_FENCED_MAX:])):
            yield f"output {term.text}"
            yield from (f"output {tag}" for _, tag in term.concepts)


def _of_task(task: str, found: Collection[str], text: str) -> Iterator[str]:
    task = lowered(without_numbers(task))
    first = _WORD.search(task)
    if first is not None:
        yield f"task {first.group()}"
    for concept in sorted({concept for term, _ in terms(task) for concept, _ in term.concepts} - {"number"}):
        yield f"task #{concept}"
        if f"#{concept}" in found:
            yield f"task and #{concept}"
    if _ALL.search(task) or _PARTS.search(task):
        yield "task has parts"
        yield f"task has parts, {'all' if _ALL.search(text) else 'none'} in the message"
    if _REPAIR.search(task) and "#change" not in found and "#done" not in found:
        yield "repair without a change"


_NO_TOOL, _NO_TOOL_FOR_ANSWER = "no tool used for a change", "no tool used for an answer"
_AN_ERROR, _ERRORS, _LAST_FAILED = "an error", "errors", "the last tool failed"
TROUBLE = frozenset({_NO_TOOL, _NO_TOOL_FOR_ANSWER, _AN_ERROR, _ERRORS, _LAST_FAILED})
"""Facts that can speak against `done`, and never for it."""


def _of_result(message: FinalMessage, task: str) -> Iterator[str]:
    """Find an improvement in numbers, or the place of the new text that the task asked for."""
    told = message.sentences
    if any(_IMPROVED.search(sentence.words) for sentence in told[:3]):
        yield "an improvement"
    created = _CREATE.match(lowered(task[:_TASK_LOOKED_AT])) is not None
    if told and "`" in told[0].words:
        yield "a new text at a place" if created else "an old thing at a place"


def _of_facts(facts: TurnFacts, inquiry: bool) -> Iterator[str]:
    if facts.tools_used == 0:
        yield _NO_TOOL_FOR_ANSWER if inquiry else _NO_TOOL
    if facts.errors:
        yield _AN_ERROR
    if facts.errors >= _MANY_ERRORS:
        yield _ERRORS
    if facts.last_tool_failed:
        yield _LAST_FAILED


def _step(size: int, limits: Sequence[int]) -> int:
    """The number of limits below `size`."""
    return sum(limit < size for limit in limits)
