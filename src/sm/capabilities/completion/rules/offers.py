"""Offers of more work in the form of a question, such as `Do you want me to also update the docs?`"""

import re

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
