"""The steps of a person towards the answer to a request: ticks, pages, one question after the other, a reason.

A step changes the draft of the card, and the card is drawn again. The last step answers the request.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from sm.core.dataclass import dataclass
from sm.core.requests import Question, Request
from sm.core.states import RequestKind
from sm.core.telegram_model import CardDraft, request_object
from sm.core.text import folded
from sm.core.wording import outcome
from sm.errors import UsageError
from sm.requests.answers import RequestReply, resolve_options
from sm.services import Dialogs, Reads, Requests, Telegram
from sm.telegram.cards import Card, draw
from sm.telegram.command_call import CommandCall, PressHandler
from sm.telegram.commands import answer_request
from sm.telegram.replies import BotReply, Redrawn
from sm.telegram.request_card import words_of

_ANSWERED = "This question has been answered."
_ANSWER_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSteps:
    requests: Requests
    telegram: Telegram
    store: Reads
    dialogs: Dialogs

    @property
    def presses(self) -> Mapping[str, PressHandler]:
        """The actions of the buttons on cards."""
        return {
            "reason": self.press_reason,
            "option": self.press_option,
            "tick": self.press_tick,
            "done": self.press_done,
            "page": self.press_page,
            "again": self.press_again,
        }

    async def press_reason(self, call: CommandCall) -> BotReply | Redrawn:
        """`reason r57`: the next reply of this person to the card is the reason of a denial."""

        def step(request: Request, draft: CardDraft) -> CardDraft:
            return replace(draft, reason_from=call.user_id)

        return await self._step(call, step, "Reply to the card with the reason.")

    async def press_tick(self, call: CommandCall) -> BotReply | Redrawn:
        """`tick r57 Q N on`. A repeated press changes nothing."""
        _, _, number, turn = call.words

        def step(request: Request, draft: CardDraft) -> CardDraft:
            others = {each for each in draft.ticked if each != int(number)}
            ticked = sorted(others | ({int(number)} if turn == "on" else set()))
            return replace(draft, ticked=tuple(ticked))

        return await self._step(call, step)

    async def press_page(self, call: CommandCall) -> BotReply | Redrawn:
        """`page r57 Q P`"""
        page = int(call.words[2])
        return await self._step(call, lambda request, draft: replace(draft, page=page))

    async def press_again(self, call: CommandCall) -> BotReply | Redrawn:
        """`again r57`: forget the answers to the first questions."""
        return await self._step(call, lambda request, draft: CardDraft(draft.about, draft.chat_id))

    async def press_option(self, call: CommandCall) -> BotReply | Redrawn:
        """`option r57 Q N`"""
        request, draft = await self._card(call)
        if (over := _is_over(request)) is not None:
            return over
        if _is_stale(call, draft):
            return self._drawn(call, request, draft, _ANSWERED)
        return await self._answered(call, request, draft, call.words[2])

    async def press_done(self, call: CommandCall) -> BotReply | Redrawn:
        """`done r57 Q`: the ticked options are the answer."""
        request, draft = await self._card(call)
        if (over := _is_over(request)) is not None:
            return over
        if _is_stale(call, draft):
            return self._drawn(call, request, draft, _ANSWERED)
        if not draft.ticked:
            return self._drawn(call, request, draft, "Tick at least one option, or reply to the card.")
        return await self._answered(call, request, draft, ",".join(map(str, draft.ticked)))

    async def reply_to_card(self, call: CommandCall, name: str) -> BotReply:
        """A text in reply to the card: the answer to the next question, or the announced reason of a denial."""
        request = await self.requests.find(call.caller, name)
        draft = await self._draft(call, request)
        if request.kind is not RequestKind.QUESTION:
            if request.kind is RequestKind.PERMISSION and draft.reason_from == call.user_id:
                return await answer_request(call, self.requests, name, RequestReply(False, message=call.rest))
            raise UsageError(
                f"request {name} is not a question: a text does not decide it",
                f"use the buttons, or: /approve {name}, /deny {name} WHY",
            )
        if len(request.questions) == 1 or not request.open:
            return await answer_request(call, self.requests, name, RequestReply(True, (call.rest,)))
        step = await self._answered(call, request, draft, call.rest)
        if isinstance(step, BotReply):
            return step
        number = len(draft.answers)
        words = folded(words_of(request.questions[number], call.rest), _ANSWER_MAX)
        text = f"{name}: answer {number + 1} of {len(request.questions)}: {words}"
        return BotReply(text, about=request_object(name), card=step)

    async def _answered(
        self, call: CommandCall, request: Request, draft: CardDraft, answer: str
    ) -> BotReply | Redrawn:
        """The answer to the next question: the last one answers the request."""
        answers = (*draft.answers, answer)
        if len(answers) == len(request.questions):
            return await answer_request(call, self.requests, request.name, RequestReply(True, answers))
        question: Question = request.questions[len(draft.answers)]
        resolve_options(
            replace(request, questions=(question,)), (answer,)
        )  # raises for an answer that does not fit
        return self._drawn(call, request, CardDraft(draft.about, draft.chat_id, answers))

    async def _step(
        self, call: CommandCall, change: Callable[[Request, CardDraft], CardDraft], told: str = ""
    ) -> BotReply | Redrawn:
        """Change the draft, unless the request is over or the button belongs to an earlier question."""
        request, draft = await self._card(call)
        if (over := _is_over(request)) is not None:
            return over
        if _is_stale(call, draft):
            return self._drawn(call, request, draft, _ANSWERED)
        return self._drawn(call, request, change(request, draft), told)

    async def _card(self, call: CommandCall) -> tuple[Request, CardDraft]:
        request = await self.requests.find(call.caller, call.words[0])
        return request, await self._draft(call, request)

    async def _draft(self, call: CommandCall, request: Request) -> CardDraft:
        return await self.telegram.draft(request_object(request.name), call.place.chat_id)

    def _drawn(self, call: CommandCall, request: Request, draft: CardDraft, told: str = "") -> Redrawn:
        card = draw(self.store, self.dialogs, request, draft)
        return Redrawn(card.html, card.buttons, told, draft)

    def card(self, request: Request) -> Card:
        """The card of a request in its current state."""
        return draw(self.store, self.dialogs, request)


def _is_over(request: Request) -> BotReply | None:
    if request.open and not request.has_proposed_answer:
        return None
    return BotReply(f"{request.name}: {outcome(request)}")


def _is_stale(call: CommandCall, draft: CardDraft) -> bool:
    """True if the button belongs to a question that has an answer already."""
    return len(call.words) > 1 and int(call.words[1]) != len(draft.answers)
