"""The routes of the bot: its state, and a test message. Only for the operator."""

from typing import Annotated

from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.fields import doc
from sm.api.route import RouteTable
from sm.api.views import build_view
from sm.core.models import RequestKey
from sm.services import Telegram
from sm.wire_types.telegram_answers import (
    GroupRightsView,
    TelegramChatView,
    TelegramView,
    TestedView,
)

routes = RouteTable()


class TelegramTestBody(Body):
    user: Annotated[str | None, doc("An owner or a paired user; null: all owners.")] = None


@routes.route("GET", "/v1/telegram", agents=False)
async def telegram_status(request: ApiRequest, *, telegram: Telegram) -> TelegramView:
    """Show the state of the bot of Telegram."""
    status = await telegram.status(request.caller)
    return TelegramView(
        configured=status.configured,
        bot=status.bot,
        last_answer_s=None if status.last_answer_s is None else round(status.last_answer_s, 1),
        trouble=status.trouble,
        waiting=status.waiting,
        dropped=status.counts.dropped,
        left_out=status.counts.left_out,
        last_dropped=list(status.dropped),
        chats=[build_view(TelegramChatView, chat) for chat in status.chats],
        owners=list(status.owners),
        paired=status.paired,
        groups=[build_view(GroupRightsView, group) for group in status.groups],
        clock_ahead_s=None if status.clock_ahead_s is None else round(status.clock_ahead_s, 1),
    )


@routes.route("POST", "/v1/telegram/test", agents=False)
async def telegram_test(
    request: ApiRequest, body: TelegramTestBody, key: RequestKey | None, *, telegram: Telegram
) -> TestedView:
    """Send a test message to the owners, or to one user."""
    return TestedView(users=await telegram.test(request.caller, body.user, key))
