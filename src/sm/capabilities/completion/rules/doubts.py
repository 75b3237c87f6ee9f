"""Rules for messages that say `done` and do not mean it, and for messages that say nothing of the work."""

import re

from sm.capabilities.completion.rules.questions import asked
from sm.capabilities.completion.rules.turn import Turn

_SHORT = 160
_IRONY = re.compile(
    r"\b(?:just kidding|yeah,? right|if (?:the|your|our|my) (?:goal|mission|plan|aim|idea|point) was|as in: |"
    r"so much for|in your dreams|said nobody|famous last words|what could (?:possibly )?go wrong|"
    r"(?:i'm|i am|we're|we are) (?:so |totally |completely |pretty much )?(?:done|finished|through) "
    r"(?:trying|fighting|guessing|arguing|waiting|debugging|being|pretending)|"
    r"so (?:over|done with) (?:this|it|that|these)|"
    r"mit meinem latein am ende|schön wär'?s|von wegen|ni de broma|en broma|tu parles|mon œil)\b|"
    r"[\U0001f643\U0001f921\U0001f62d\U0001f937\U0001f644]"
)


def irony(turn: Turn) -> str | None:
    """A claim that its own words take back, such as `I'm done trying`."""
    for sentence in turn.ends:
        if _IRONY.search(sentence.words):
            return turn.message.quote(sentence)
    return None


_GREETING = re.compile(
    r"\W*(?:hi|hey|hello|hallo|moin|hola|bonjour|salut|ciao|olá|"
    r"good (?:morning|afternoon|evening)|guten (?:tag|morgen|abend)|"
    r"buen[oa]s (?:días|tardes|noches)|bonsoir|you're welcome|thanks?|thank you|danke|gracias|merci|"
    r"gern geschehen|de nada|de rien|understood|got it|noted|acknowledged|ack|"
    r"verstanden|alles klar|entendido|de acuerdo|"
    r"compris|d'accord|bien reçu|sure|of course|nice to meet you|bereit|listo para|prêt à)\b",
    re.IGNORECASE,
)
_NATURAL = re.compile(r"(?<![\w=:/.@#-])[^\W\d_]{2,}(?![\w=/@#])")
_OTHER_SCRIPTS = re.compile("[\u0590-\uffff]")


def says_nothing(turn: Turn) -> str | None:
    """A greeting, an acknowledgement, or a text of identifiers, which is short and claims nothing."""
    text = turn.message.text.strip()
    if len(text) > _SHORT or turn.claim is not None or asked(turn) is not None:
        return None
    if _GREETING.match(text):
        return turn.message.first_words
    if turn.inquiry or _OTHER_SCRIPTS.search(text) or len(_NATURAL.findall(text)) > 1:
        return None
    return turn.message.first_words


_EXCEPT = re.compile(
    r"\b(?:except(?:ing)?|apart from|aside from|save for|other than|but not|but for|minus the|bis auf|außer|"
    r"mit ausnahme|abgesehen von|salvo|excepto|menos|a excepción|con excepción|sauf|"
    r"hormis|à part|à l'exception|excepté|"
    r"tranne|eccetto|exceto|oprócz|poza|кроме)\b"
)


_WORDS = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|"
    r"dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|deux|trois|quatre|cinq|sept|huit|neuf|dix|"
    r"due|tre|quattro|cinque|sei|sette|otto|nove|dieci)"
)
_DIGITS = r"(?<![\d.,])\d{1,3}(?:[.,' ]?\d{3}){0,3}(?![\d.,]*\d)"
_OF = r" (?:[^\W\d_]{3,20} )?(?:of|out of|von|sur|de|di|af|av) (?:[^\W\d_]{1,5} )?"
_PART_IN_WORDS = re.compile(rf"\b({_WORDS}){_OF}({_WORDS})\b")
_PART_IN_DIGITS = re.compile(rf"({_DIGITS}){_OF}({_DIGITS})")


def number_of_all(turn: Turn) -> str | None:
    """A part of the work in numbers: `12 of 19 are done.`"""
    if turn.inquiry:
        return None
    for sentence in turn.ends:
        part = _PART_IN_DIGITS.search(sentence.words)
        if part is not None and part[1] not in ("0", part[2]):
            return turn.message.quote(sentence, part.start())
    return None


def exception(turn: Turn) -> str | None:
    """A part of the work that the message leaves out: `Two of four are done.`, `Done, except for the docs.`"""
    if turn.inquiry:
        return None
    for sentence in (*turn.ends[:1], *turn.ends[-1:]):
        part = _PART_IN_WORDS.search(sentence.words)
        if part is not None and part[1] != part[2]:
            return turn.message.quote(sentence, part.start())
    if turn.done is None:
        return None
    left = _EXCEPT.search(turn.done.sentence.words, turn.done.end)
    return None if left is None else turn.message.quote(turn.done.sentence, left.start())
