"""The rules of the classifier, in the order in which they decide."""

import re
from collections.abc import Sequence

from sm.core.turns import Ending
from sm.monitor.completion import obstacles, questions, support
from sm.monitor.completion.turn import EndingRule, Turn

# The fields of the turn

_ACCOUNT = frozenset({"rate_limit", "authentication_failed", "oauth_org_not_allowed", "billing_error"})


def _provider_blocked(turn: Turn) -> str | None:
    return turn.message.first_words if turn.facts.failure in _ACCOUNT else None


def _provider_failed(turn: Turn) -> str | None:
    return turn.message.first_words if turn.facts.failure is not None else None


def _interrupted(turn: Turn) -> str | None:
    return turn.message.first_words if turn.facts.interrupted else None


def _pending_question(turn: Turn) -> str | None:
    return turn.message.first_words if turn.facts.pending_question else None


# Messages of the agent CLI and of the service behind it

_LIMIT = re.compile(
    r"you(?:'|’)ve (?:hit|reached) your [\w ]{0,30}limit|usage limit reached|"
    r"(?:\w+ )?limit reached ?[·∙|]|"
    r"invalid api key|please run /login|not logged in|"
    r"oauth (?:token|authentication)|credit balance is too low|"
    r"your (?:account|organi[sz]ation) (?:has been|is|does not)|you(?:'|’)?re out of (?:extra )?(?:usage|credits)",
    re.IGNORECASE,
)
_API = re.compile(
    r"api error\b|prompt is too long|there(?:'|’)s an issue with the selected model|request (?:timed out|"
    r"rejected)|"
    r"server is temporarily limiting|context (?:window|limit|low)|conversation too long|unable to connect to|"
    r"error: \d{3}\b|\d{3} \{\"type\":\"error\"",
    re.IGNORECASE,
)
_NOTICE_MAX = 600


def _limit_text(turn: Turn) -> str | None:
    return _notice(turn, _LIMIT)


def _api_text(turn: Turn) -> str | None:
    return _notice(turn, _API)


def _notice(turn: Turn, begin: re.Pattern[str]) -> str | None:
    """A short message that begins with a notice of the program, not with words of the model."""
    text = turn.message.text.strip()
    return turn.message.first_words if len(text) <= _NOTICE_MAX and begin.match(text) else None


def _empty(turn: Turn) -> str | None:
    if turn.message.sentences or (
        turn.inquiry and (_TABLE if not _WRITE.match(turn.task) else _CODE).search(turn.message.text)
    ):
        return None
    return ""


# Doubt and success


def _hedge(turn: Turn) -> str | None:
    found = turn.find("hedge", turn.sentences)
    return None if found is None else turn.quote(found)


def _done_statement(turn: Turn) -> str | None:
    return None if turn.done is None else turn.quote(turn.done)


def _last_tool_failed(turn: Turn) -> str | None:
    return turn.quote(turn.work) if turn.work is not None and turn.facts.last_tool_failed else None


_RESERVATION = re.compile(
    r"\b(?:but|however|although|though|except|still|yet)\b[^.;]*\b(?:not|no|never|none|nothing|missing|"
    r"wrong|broken|problems?|"
    r"issues?|unclear|unsure|open|later|doubts?|worr\w+|concern\w*|strange|weird|\w+n't)\b"
)


_BAD_NEWS = re.compile(
    r"\b(?:unfortunately|sadly|regrettably|worse|workaround|unresolved|unsolved|i can(?:'|no)t|i couldn't|"
    r"not working|"
    r"segfault\w*|gave up|no idea|out of ideas)\b"
)


def _reservation(turn: Turn) -> str | None:
    """A report whose last words take something back."""
    for sentence in turn.ends[-3:]:
        found = _RESERVATION.search(sentence.words) or _BAD_NEWS.search(sentence.words)
        if found is not None and not _INTENDED.search(sentence.words):
            return turn.message.quote(sentence, found.start())
    return None


def _reservation_of_report(turn: Turn) -> str | None:
    return None if turn.work is None or turn.inquiry else _reservation(turn)


_INTENDED = re.compile(
    r"\b(?:as (?:you )?(?:asked|agreed|requested|instructed)|on purpose|deliberately|intentionally|"
    r"per your|expected)\b"
)


def _work_report(turn: Turn) -> str | None:
    return None if turn.work is None else turn.quote(turn.work)


ANSWER_MIN = 30
"""Characters of an answer. Fewer say hardly more than that the question was read."""
_REPLY = re.compile(
    r"\W*(?:please |just |only )*(?:reply|respond|answer|say|print|output|echo)\b", re.IGNORECASE
)


_IN_NEED = re.compile(
    r"\bi (?:need|require|cannot|can't|couldn't|could not|was unable|(?:have not|haven't)(?! (?:found|"
    r"seen|changed|touched))|still)\b"
)
_TABLE = re.compile(r"^[ \t]*\|.*\w", re.MULTILINE)
_CODE = re.compile(r"```\w*\n\s*\S|^[ \t]*\|.*\w", re.MULTILINE)
_WRITE = re.compile(r"\W*(?:please )?(?:write|draft|generate|give me)\b", re.IGNORECASE)


def _answer(turn: Turn) -> str | None:
    if not turn.inquiry or any(_IN_NEED.search(sentence.words) for sentence in turn.ends):
        return None
    if (
        len(turn.message.text.strip()) < ANSWER_MIN
        and not _REPLY.match(turn.task)
        and "`" not in turn.message.text
    ):
        return None
    told = turn.message.sentences
    return turn.message.quote(told[0]) if told else turn.message.first_words


def _pattern(turn: Turn) -> str | None:
    """A pattern of the user and a turn that worked: the pattern is a hint, and never enough alone."""
    if turn.facts.tools_used == 0 or turn.facts.last_tool_failed:
        return None
    for sentence in turn.ends:
        if any(pattern.search(sentence.words) for pattern in turn.patterns):
            return turn.message.quote(sentence)
    return None


RULES: Sequence[EndingRule] = (
    EndingRule("provider-blocked", Ending.BLOCKED, _provider_blocked),
    EndingRule("provider-failed", Ending.FAILED, _provider_failed),
    EndingRule("interrupted", Ending.UNCLEAR, _interrupted),
    EndingRule("pending-question", Ending.QUESTION, _pending_question),
    EndingRule("limit-or-login-text", Ending.BLOCKED, _limit_text),
    EndingRule("api-error-text", Ending.FAILED, _api_text),
    EndingRule("no-words", Ending.UNCLEAR, _empty),
    EndingRule("offer-or-decision", Ending.UNCLEAR, questions.offer_or_decision),
    EndingRule("question-mark", Ending.QUESTION, questions.question),
    EndingRule("blocked-statement", Ending.BLOCKED, obstacles.blocked),
    EndingRule("asks-for-a-decision", Ending.QUESTION, questions.asked),
    EndingRule("failed-statement", Ending.FAILED, obstacles.failed),
    EndingRule("tests-or-tools-fail", Ending.FAILED, obstacles.failing),
    EndingRule("unfinished-work", Ending.PROGRESS, obstacles.unfinished),
    EndingRule("waits-for-others", Ending.PROGRESS, obstacles.waiting),
    EndingRule("part-of-the-work", Ending.PROGRESS, obstacles.partial),
    EndingRule("live-children", Ending.PROGRESS, obstacles.live_children),
    EndingRule("background-work", Ending.PROGRESS, obstacles.background),
    EndingRule("open-tasks", Ending.PROGRESS, obstacles.open_tasks),
    EndingRule("untested-or-unsure", Ending.UNCLEAR, _hedge),
    EndingRule("broken-off", Ending.UNCLEAR, support.broken_off),
    EndingRule("done-statement", Ending.DONE, _done_statement),
    EndingRule("last-tool-failed", Ending.UNCLEAR, _last_tool_failed),
    EndingRule("reservation", Ending.UNCLEAR, _reservation_of_report),
    EndingRule("open-end", Ending.UNCLEAR, support.open_end),
    EndingRule("open-answer", Ending.UNCLEAR, support.open_answer),
    EndingRule("question-left", Ending.UNCLEAR, support.question_left),
    EndingRule("unsupported-report", Ending.UNCLEAR, support.unsupported),
    EndingRule("work-report", Ending.DONE, _work_report),
    EndingRule("answer-to-task", Ending.DONE, _answer),
    EndingRule("user-pattern", Ending.DONE, _pattern),
)
