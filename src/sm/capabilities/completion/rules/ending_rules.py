"""The rules of the classifier, in the order in which they decide."""

import re
from collections.abc import Sequence

from sm.capabilities.completion.model import Ending
from sm.capabilities.completion.rules import doubts, obstacles, questions, support
from sm.capabilities.completion.rules.judgement import EndingRule, JudgedTurn
from sm.capabilities.completion.rules.message import Sentence

# The fields of the turn

_ACCOUNT = frozenset({"rate_limit", "authentication_failed", "oauth_org_not_allowed", "billing_error"})


def _provider_blocked(turn: JudgedTurn) -> str | None:
    return turn.message.first_words if turn.facts.failure in _ACCOUNT else None


def _provider_failed(turn: JudgedTurn) -> str | None:
    return turn.message.first_words if turn.facts.failure is not None else None


def _interrupted(turn: JudgedTurn) -> str | None:
    return turn.message.first_words if turn.facts.interrupted else None


def _pending_question(turn: JudgedTurn) -> str | None:
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


def _limit_text(turn: JudgedTurn) -> str | None:
    return _notice(turn, _LIMIT)


def _api_text(turn: JudgedTurn) -> str | None:
    return _notice(turn, _API)


def _notice(turn: JudgedTurn, begin: re.Pattern[str]) -> str | None:
    """A short message that begins with a notice of the program, not with words of the model."""
    text = turn.message.text.strip()
    return turn.message.first_words if len(text) <= _NOTICE_MAX and begin.match(text) else None


_NO_CONTENT = re.compile(r"\W*(?:no content|no response requested|no output|empty)\W*", re.IGNORECASE)
"""Texts that an agent CLI or a model writes in place of a message."""


def _empty(turn: JudgedTurn) -> str | None:
    if _NO_CONTENT.fullmatch(turn.message.text[:_NOTICE_MAX]):
        return turn.message.first_words
    if turn.message.sentences or (
        turn.inquiry and (_TABLE if not _WRITE.match(turn.task) else _CODE).search(turn.message.text)
    ):
        return None
    return ""


# Doubt


def _hedge(turn: JudgedTurn) -> str | None:
    found = turn.find("hedge", turn.sentences)
    return None if found is None else turn.quote(found)


_TABLE = re.compile(r"^[ \t]*\|.*\w", re.MULTILINE)
_CODE = re.compile(r"```\w*\n\s*\S|^[ \t]*\|.*\w", re.MULTILINE)
_WRITE = re.compile(r"\W*(?:please )?(?:write|draft|generate|give me)\b", re.IGNORECASE)


_PATTERN_MAY_FAIL = 0.2


def _pattern(turn: JudgedTurn) -> str | None:
    """A pattern of the user in a turn that worked: it outweighs doubt, but neither a failure nor a question."""
    if turn.facts.tools_used == 0 or turn.facts.last_tool_failed or turn.fails >= _PATTERN_MAY_FAIL:
        return None
    if questions.question(turn) is not None or questions.asked(turn) is not None:
        return None
    for sentence in turn.ends:
        if any(pattern.search(sentence.words) for pattern in turn.patterns):
            return None if _rest_fails(turn, sentence) else turn.message.quote(sentence)
    return None


def _rest_fails(turn: JudgedTurn, sentence: Sentence) -> bool:
    """The message without this sentence may tell of a failure: the words of a pattern say nothing of the work."""
    text, end = turn.message.text, sentence.start + len(sentence.words)
    rest = JudgedTurn.of(f"{text[: sentence.start]}{text[end:]}", turn.task, turn.facts)
    return bool(rest.message.sentences) and rest.fails >= _PATTERN_MAY_FAIL


CERTAIN = 0.85
"""The least support at which obstacles, failures and offers in a message are what the message describes."""

RULES: Sequence[EndingRule] = (
    EndingRule("provider-blocked", Ending.BLOCKED, _provider_blocked),
    EndingRule("provider-failed", Ending.FAILED, _provider_failed),
    EndingRule("interrupted", Ending.UNCLEAR, _interrupted),
    EndingRule("pending-question", Ending.QUESTION, _pending_question, passes=True),
    EndingRule("limit-or-login-text", Ending.BLOCKED, _limit_text),
    EndingRule("api-error-text", Ending.FAILED, _api_text),
    EndingRule("no-words", Ending.UNCLEAR, _empty),
    EndingRule("question-mark", Ending.QUESTION, support.question),
    EndingRule("asks-for-a-decision", Ending.QUESTION, support.request),
    EndingRule("irony", Ending.UNCLEAR, doubts.irony),
    EndingRule("says-nothing", Ending.UNCLEAR, doubts.says_nothing),
    EndingRule("blocked-statement", Ending.BLOCKED, obstacles.blocked, yields=True),
    EndingRule("gave-up", Ending.FAILED, obstacles.gave_up),
    EndingRule("failed-statement", Ending.FAILED, obstacles.failed, yields=True),
    EndingRule("tests-or-tools-fail", Ending.FAILED, obstacles.failing, yields=True),
    EndingRule("unfinished-work", Ending.PROGRESS, obstacles.unfinished, yields=True),
    EndingRule("waits-for-others", Ending.PROGRESS, obstacles.waiting, yields=True),
    EndingRule("tells-of-failure", Ending.FAILED, support.failure),
    EndingRule("part-of-the-work", Ending.PROGRESS, obstacles.partial, yields=True),
    EndingRule("some-of-all", Ending.PROGRESS, doubts.number_of_all, yields=True),
    EndingRule("all-but-a-part", Ending.PROGRESS, doubts.exception),
    EndingRule("live-children", Ending.PROGRESS, obstacles.live_children, passes=True),
    EndingRule("background-work", Ending.PROGRESS, obstacles.background, passes=True),
    EndingRule("open-tasks", Ending.PROGRESS, obstacles.open_tasks, passes=True),
    EndingRule("user-pattern", Ending.DONE, _pattern),
    EndingRule("untested-or-unsure", Ending.UNCLEAR, _hedge, yields=True),
    EndingRule("broken-off", Ending.UNCLEAR, support.broken_off),
    EndingRule("last-tool-failed", Ending.UNCLEAR, support.last_tool_failed, yields=True),
    EndingRule("doubtful-question", Ending.UNCLEAR, support.doubtful_question, yields=True),
    EndingRule("done-statement", Ending.DONE, support.done_statement),
    EndingRule("work-report", Ending.DONE, support.work_report),
    EndingRule("plain-statement", Ending.DONE, support.plain_statement),
    EndingRule("answer-to-task", Ending.DONE, support.answer),
    EndingRule("result", Ending.DONE, support.result),
    EndingRule("doubtful", Ending.UNCLEAR, support.doubtful),
)
