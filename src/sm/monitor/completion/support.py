"""Rules against success that a message does not support: words of open ends, and texts that break off.

A message without an explicit statement of completion is `done` only with strong support. These words leave the ending
`unclear` wherever they stand, even if no rule for unfinished work knows the wording.
"""

import re

from sm.monitor.completion.message import Part, Sentence
from sm.monitor.completion.phrases import find
from sm.monitor.completion.turn import Turn

_OPEN = re.compile(
    r"\bplease (?!let me|feel|note|ping|see)|\b(?:some(?:body|one)|anyone|you(?:'ll)?|your \w+|we|"
    r"i) (?:\w+ ){0,3}?"
    r"(?:needs?|must|has|have) to\b|"
    r"\b(?:has|have|needs?|must|remains?) (?:still )?(?:to )?be \w+(?:ed|en|ten|ne|lt|un|built|made|set|"
    r"run|put)\b|"
    r"\b(?:stuck|denied|forbidden|unable to|blocker|blocking issue|untested|unverified|unfinished|"
    r"incomplete|tbd|wip)\b|"
    r"\bi (?:\w+ )?(?:can't|cannot|can not|couldn't|could not|haven't|have not|didn't|did not|don't|do not|"
    r"wasn't|was not) (?!"
    r"(?:\w+ )?(?:touch|change|find|found|see|alter|modif|need|add|remove|commit|push|delete|rename|"
    r"introduce|keep|"
    r"include)\w*\b)|"
    r"\b(?:haven't|hasn't|have not|has not|isn't|aren't|wasn't|weren't|is not|are not) "
    r"(?:yet |been |actually |really |fully )*"
    r"(?:implemented|wired|connected|tested|run|done|finished|started|written|covered|verified|updated|"
    r"merged|deployed|"
    r"enabled|migrated|handled|applied|possible|complete|ready|set up|added|fixed|exercised|met|there)\b|"
    r"\bnot (?:yet|sure|tested|verified|complete|enough|able|implemented)\b|\bnothing (?:has|was) been\b|"
    r"\b(?:yet|so far|for now|for the moment|at the moment|unfortunately|despite|hopefully|presumably|"
    r"probably|likely|"
    r"in theory|not certain|no guarantee)\b(?! another)|"
    r"\b(?:i|we|tests?) (?:\w+ ){0,2}(?:skipped|commented|disabled|xfail\w*|ignored)\b(?! on)|"
    r"\b(?:left|leave|leaves|leaving|with|some|several|few|marked|put) (?:\w+ ){0,3}(?:todos?|fixmes?|"
    r"stubs?|placeholders?)\b|"
    r"\b(?:hard-?coded|dummy|mocked out|stubbed|stub|placeholder) (?:for|until|value|implementation|data|"
    r"response)|"
    r"\b(?:remaining|leftover|outstanding)\b|\bthe (?:rest|others) (?:is|are|will|has|have|still|needs?|"
    r"comes?|follows?|of the)\b|\b(?:\d+|some|many|few|several) (?:more|others)\b|\bto go\b|"
    r"\bmore to \w+|\bmissing is\b|'s turn\b|\bi have no\b|\bhave a look\b|\bnowhere\b|\b(?:the old|"
    r"everything|it) (?:\w+ )?back(?= *[.,]| *$)|"
    r"\bonly (?:been )?(?:tried|tested|checked)\b|\bturned off\b|\bkeep an eye\b|\bnever saw\b|\b(?:don't|"
    r"doesn't) exist\b|\b(?:aborted|rolled back)\b|\bout of reach\b|"
    r"\b(?:tomorrow|later today|next (?:week|session))\b|\bstill (?:to|need|have|has|miss|fail|open|see|"
    r"get|missing|broken|flaky|red|show|report|exists?|unclear|slow|wrong|crash|unsolved|not|a|some|one|"
    r"two|an)\w*\b|"
    r"\b(?:i'll|i will|we'll|i'm going to|i am going to|i plan|i intend|will then|then i'll)\b|"
    r"^(?:next|then|afterwards|after that|remaining|pending|missing|open|left|todos?|to do)(?= ?:|,)|"
    r"\b(?:comes?|come|is|are|up) next\b|\bnext (?:up|step is|i|steps? (?:is|are|will))\b|"
    r"\b(?:waiting|awaiting|pending (?!intent)|in progress|underway|ongoing)\b|"
    r"\b(?:your (?:call|decision|choice|approval|review)|up to you|decide (?:on|whether|which|if)|"
    r"(?:once|until|after|when) (?:you|someone|somebody|that's|that is|this is|they|the (?:team|reviewer|"
    r"owner|"
    r"maintainer|admin|key|access|token)))\b|"
    r"\b(?:step|phase|part|stage|milestone|iteration) (?:\d|one|two|i)\b|\bas a (?:first|start|starting|"
    r"temporary)\b|"
    r"\b(?:first|initial|basic|partial|temporary|quick|minimal) (?:version|draft|pass|cut|skeleton|step|"
    r"implementation|support|fix|workaround)\b|"
    r"\b(?:workaround|not sure|unsure|unclear|almost|nearly|halfway|partially|partly)\b|"
    r"\b(?:should|ought to) (?:\w+ ){0,2}(?:work|fix|be|solve|do|help|pass|resolve|make|now|cover|go|run|"
    r"behave|stop)\w*\b|"
    r"\b(?:might|may) (?:not|still|need|break|fail|be (?:missing|wrong|incomplete|necessary))\b|"
    r"\b(?:tests?|builds?|ci|suite|checks?|it|which|they) (?:still |now |also )*(?:fails?|is failing|"
    r"are failing|"
    r"breaks?|is red|are red)\b(?! (?:if|when|without|before|with a|because))|"
    r"\bonly (?:the|for|works?|covers?|on|in) (?:the )?(?:first|part|happy|half|locally|one|some|simple|"
    r"basic)\b"
)
"""English words of an end that is open, wherever they stand in a report."""

_OPEN_ABROAD = re.compile(
    r"\b(?:noch (?:nicht|aus|offen|zu|fehl\w+|ein\w*)|bitte|vorerst|vorläufig|offen|fehlt|fehlen|leider|"
    r"restlich\w*|übrig\w*|"
    r"anschließend|danach|"
    r"nächste\w*|müsste\w*|sollte\w*|könnte\w*|muss|müssen|"
    r"todavía|aún|falta|faltan|queda|quedan|pendiente\w*|siguiente|próxim\w+|debería\w*|por ahora|"
    r"lamentablemente|parcial\w*|"
    r"encore|reste\w*|manque\w*|prochain\w*|devrait|devraient|pour l'instant|malheureusement|ensuite|"
    r"veuillez|"
    r"ainda|resta\w*|pendente\w*|deveria\w*|deve|por enquanto|infelizmente|a seguir|"
    r"ancora|manca|mancano|rimane|rimangono|prossim\w+|dovrebbe\w*|per ora|purtroppo|"
    r"jeszcze|pozostał\w*|pozostaje|powinn\w+|na razie|niestety|następn\w+|"
    r"ještě|zbývá|zatím|bohužel|henüz|kaldı|sonraki|şimdilik|maalesef|gerekiyor|"
    r"nog|helaas|voorlopig|resteert|volgende|zou|moet|moeten|"
    r"återstår|ännu|tyvärr|borde|gjenstår|foreløpig|dessverre|bør|mangler|endnu|"
    r"ещё|еще|пока|осталось|остал\w+|к сожалению|следующ\w+|должн\w+|нужно|надо|дальше|"
    r"ще|поки|залишил\w*|на жаль|"
    r"belum|masih|selanjutnya|sayangnya|seharusnya|chưa|còn|tiếp theo|có lẽ)\b|"
    r"尚未|还没|還沒|暂时|接下来|下一步|剩余|剩下|应该|可能|请|遗憾|待|まだ|残り|次に|次は|はず|一旦|とりあえず|未|"
    r"아직|남은|남았|다음|우선|일단|것 같|필요|لم |بعد ذلك|المتبقي|يبقى|التالي|ينبغي|يجب|للأسف|"
    r"עדיין|נשאר|נותר|הבא|אמור|צריך|לצערי|अभी|बाकी|अगला|चाहिए|शायद|هنوز|باقی|باید"
)
_INTENDED = re.compile(
    r"\b(?:as (?:you )?(?:asked|agreed|requested|instructed)|on purpose|per your|out of scope|by design)\b"
)
_TORN = re.compile(
    r"(?:\b(?:the|a|an|in|of|to|and|or|is|are|with|for|by|from|at|on|that|which|this|its?|i|we|but|"
    r"because|if|when|"
    r"into|then|so|der|die|das|und|mit|le|la|les|de|et|el|los|y|que|il|e|di|w|z|и|в|на|с)|,|\()$"
)
_EXPLICIT = re.compile(r"\b(?:no|nothing|zero|none|0|without)\b")


def _is_open(turn: Turn, sentence: Sentence) -> int | None:
    found = _OPEN.search(sentence.words)
    if found is None and len(turn.languages) > 1:
        found = _OPEN_ABROAD.search(sentence.words)
    if found is None or _EXPLICIT.search(sentence.words, 0, found.start()):
        return None
    if _INTENDED.search(sentence.words) or next(find("offer", turn.languages, (sentence,)), None) is not None:
        return None
    return found.start()


def open_end(turn: Turn) -> str | None:
    """A report with words of an open end. In an answer such words belong to what the task asked about."""
    if turn.work is None or turn.inquiry:
        return None
    for sentence in turn.message.sentences:
        at = None if sentence.aside else _is_open(turn, sentence)
        if at is not None:
            return turn.message.quote(sentence, at)
    return None


_OWN_WORK = re.compile(
    r"\bi(?:'ll| will|'m (?:still|now|going|about|waiting|currently)| am (?:still|now|going)| still|"
    r" plan to| intend to|"
    r" (?:haven't|have not|couldn't|could not|can't|cannot|wasn't able|was not able|didn't|did not) "
    r"(?:yet |been |able |to )*(?!found|find|see|seen|touch\w*|chang\w*|includ\w*|count\w*|consider\w*))|"
    r"\b(?:so far|'s turn|nowhere|let me (?!know)|not (?:yet )?(?:looked|checked|finished|covered|"
    r"reviewed|read)|more to (?:come|follow)|"
    r"next,? i|draft|to be (?:continued|completed)|will follow|will be added|first impressions?|"
    r"preliminary)\b"
)


def open_answer(turn: Turn) -> str | None:
    """An answer whose author goes on, or could not look at everything."""
    if not turn.inquiry:
        return None
    for sentence in turn.ends:
        found = _OWN_WORK.search(sentence.words)
        if found is not None and turn.find("offer", (sentence,)) is None:
            return turn.message.quote(sentence, found.start())
    return None


def broken_off(turn: Turn) -> str | None:
    """A text that ends in the middle of a sentence."""
    text = turn.message.text.rstrip()
    told = turn.message.sentences
    if not told or told[-1].part is Part.HEADING:
        return None
    last = told[-1]
    if last.start + len(last.words) < len(text) - 3:
        return None  # code or a table follows
    torn = _TORN.search(last.words) or last.words.endswith(":")
    return turn.message.quote(last, max(len(last.words) - 40, 0)) if torn else None


_CHECKED = re.compile(
    r"\b(?:(?:went|dropped|shrank|fell|goes|is upgraded|upgraded) from|instead of \d|rather than \d|"
    r"(?:reports?|raises?|finds) no\w*|"
    r"\d+ (?:passed|times|removed|added|fixed|replaced)|without (?:errors?|warnings?)|no (?:issues|leaks))\b|"
    r"\b(?:pass(?:es|ed|ing)?|green|verified|checked|tested|confirmed|succe\w+|no (?:\w+ )?(?:errors?|"
    r"warnings?|conflicts?)|"
    r"clean|works?|(?:new|regression|unit|three|four|five|six|\d+)(?: \w+)? tests?|tests? (?:added|"
    r"covers?|for)|(?:tests?|cover\w*) (?:by|is added|are added)|reproduc\\w+|identical|matche[sd]|"
    r"(?:takes?|took|from|of|instead of) \\d[\\w.,]* ?\\w+ (?:to|instead)|pushed|merged|published|"
    r"committed|tagged|ran|measured|no (?:\\w+ ){0,2}(?:references?|uses?|differences?|leaks?|findings?|"
    r"regressions?)|now (?:\\d|in|on|at|use\\w*)|down from|getestet|geprüft|grün|bestanden|laufen|läuft|"
    r"durch|fehlerfrei|pasan|probad[oa]s?|funciona\w*|"
    r"verificad[oa]s?|passent|passe|vérifié\w*|testé\w*|fonctionne\w*|passam|testes|testad[oa]s?|passano|"
    r"verd[ei]|"
    r"funziona\w*|testat\w|verificat\w|slagen|slaagt|groen|werkt|werken|przechodz\w+|testy|działa\w*|"
    r"procház\w+|funguje|"
    r"geçiyor|geçti|çalışıyor|testler\w*|tester\w*|går igenom|går igjennom|fungerar|fungerer|lulus|"
    r"berhasil|berjalan|kiểm tra|"
    r"chạy)\b|проход|тест|провер|работает|测试|通过|验证|正常|テスト|確認|成功|테스트|통과|확인|اختبار|ناجح|בדיק|עובד|परीक्षण|"
    r"टेस्ट|تست"
)
_NEGATION = re.compile(
    r"\b(?:not|nicht|kein\w*|pas|plus|aucun\w*|não|nao|non|niet|geen|nie|inte|ikke|bukan|tidak|không|"
    r"değil|yok|не|нет)\b|"
    r"没|不|未|ない|ません|않|못|없|لا |لم |לא |नहीं"
)
_TERSE_MAX = 120


def unsupported(turn: Turn) -> str | None:
    """A report of more than a few words that names no successful check or measurement."""
    if turn.work is None or turn.inquiry or turn.done is not None:
        return None
    told = turn.message.sentences
    if any(_CHECKED.search(one.words) and not _NEGATION.search(one.words) for one in told):
        return None
    if len(turn.message.text) <= _TERSE_MAX and not any(_NEGATION.search(one.words) for one in told):
        return None
    return turn.quote(turn.work)


def question_left(turn: Turn) -> str | None:
    """A report that ends with a question, unless the work is said to be finished or the question offers more work."""
    if not turn.message.sentences:
        return None
    last = turn.message.sentences[-1]
    if (
        turn.work is None
        or turn.done is not None
        or not last.words.rstrip("`*_) ").endswith(("?", "？", "؟"))
    ):
        return None
    return None if _MORE_WORK.search(last.words) else turn.message.quote(last)


_MORE_WORK = re.compile(
    r"\b(?:me to|i|else|ich|je|eu|io|ik|jag|jeg|quieres|veux-tu|souhaitez|vuoi|quer|możesz|chcesz|ister)\b|"
    r"[\u0370-\uffff]"
)
