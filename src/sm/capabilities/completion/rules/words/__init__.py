"""Words of final messages in each language, as data, and the languages of a text."""

import re
from collections.abc import Mapping, Sequence

from sm.capabilities.completion.rules.words.asian import (
    CHINESE,
    HINDI,
    INDONESIAN,
    JAPANESE,
    KOREAN,
    VIETNAMESE,
)
from sm.capabilities.completion.rules.words.english import ENGLISH
from sm.capabilities.completion.rules.words.germanic import DUTCH, GERMAN, SCANDINAVIAN
from sm.capabilities.completion.rules.words.romance import FRENCH, ITALIAN, PORTUGUESE, SPANISH
from sm.capabilities.completion.rules.words.semitic import ARABIC, HEBREW, PERSIAN
from sm.capabilities.completion.rules.words.slavic import CZECH, POLISH, RUSSIAN, UKRAINIAN
from sm.capabilities.completion.rules.words.turkish import TURKISH
from sm.capabilities.completion.rules.words.vocabulary import KINDS, Words

__all__ = ["ENGLISH", "KINDS", "Words", "languages"]

_SCRIPTS: tuple[tuple[re.Pattern[str], tuple[Words, ...]], ...] = (
    (re.compile("[\u0400-\u04ff]"), (RUSSIAN, UKRAINIAN)),
    (re.compile("[\u0590-\u05ff]"), (HEBREW,)),
    (re.compile("[\u0600-\u06ff]"), (ARABIC, PERSIAN)),
    (re.compile("[\u0900-\u097f]"), (HINDI,)),
    (re.compile("[\u3040-\u30ff]"), (JAPANESE,)),
    (re.compile("[\uac00-\ud7af]"), (KOREAN,)),
    (re.compile("[\u4e00-\u9fff]"), (CHINESE, JAPANESE)),
)

# Frequent words that tell languages in Latin letters apart.
_COMMON: tuple[tuple[Words, frozenset[str]], ...] = tuple(
    (words, frozenset(common.split()))
    for words, common in (
        (
            ENGLISH,
            "the a an and is are was were of to in it that this for with have has not i you on be all "
            "now no from by as at but if or my we they will can which should should done",
        ),
        (
            GERMAN,
            "der die das und ist sind ein eine nicht ich habe den dem mit für auf zu von im wird "
            "werden noch auch alle aber soll oder jetzt es sich wurde sollte mir bitte",
        ),
        (
            DUTCH,
            "de het een en is zijn niet ik heb van op te met voor nog ook alle maar zal wil naar nu "
            "moet dat welke kan",
        ),
        (
            SCANDINAVIAN,
            "och og är er att at det en ett et inte ikke jag jeg har på för med till til som av alla "
            "alle vill vil nu nå på ja",
        ),
        (
            FRENCH,
            "le la les un une et est sont pas je j'ai ai des du de que qui pour dans sur avec vous il "
            "ce cela deux ça ne en a dois-je l'ai tous",
        ),
        (
            SPANISH,
            "el la los las un una y es está no he de que para en con por lo se del al todo todas "
            "ahora más si debe qué",
        ),
        (
            PORTUGUESE,
            "o a os as um uma e é está não de que para em com por se do da no na foi já você agora "
            "devo qual eu todos",
        ),
        (
            ITALIAN,
            "il lo la i gli le un una e è sono non ho di che per in con del della si tutti ora ancora "
            "stato mi dei quale",
        ),
        (
            POLISH,
            "i w we na z jest są wszystkich nie się do to że dla po oraz od ale czy jak mam który wszystkie został "
            "teraz już",
        ),
        (
            CZECH,
            "a v na z je jsou není se do to že pro po od ale jak který všechny teď už jsem byla má mám",
        ),
        (
            TURKISH,
            "ve bir bu da de için ile mi mı mu mü var yok ama çok daha ne hâlâ tüm hepsi şimdi olarak",
        ),
        (
            VIETNAMESE,
            "và là của các đã tôi bạn không được có cho để trong này một với những tất cả lỗi",
        ),
        (
            INDONESIAN,
            "dan yang di ke dari ini itu untuk dengan sudah saya tidak akan pada semua ada anda belum",
        ),
    )
)
_LATIN = tuple(words for words, _ in _COMMON)
_NUMBERS: Mapping[str, Sequence[int]] = {
    word: [number for number, (_, others) in enumerate(_COMMON) if word in others]
    for _, common in _COMMON
    for word in common
}
"""The numbers of the languages in `_COMMON` that a word is frequent in."""
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_SAMPLE = 1_500


def languages(text: str) -> Sequence[Words]:
    """The languages that `text`, in lower case, may be written in. English is always one: agents mix it in."""
    if not text.isascii():
        found = [words for script, of_script in _SCRIPTS if script.search(text) for words in of_script]
        if found:
            return (ENGLISH, *dict.fromkeys(found))
    counts = [0] * len(_LATIN)
    for word in set(_WORD.findall(text[:_SAMPLE])):
        for number in _NUMBERS.get(word, ()):
            counts[number] += 1
    most = max(counts)
    if most == 0:
        return _LATIN
    likely = [
        words
        for count, words in zip(counts, _LATIN, strict=True)
        if count >= most * 0.75 and words is not ENGLISH
    ]
    return (ENGLISH, *likely)
