"""The routes of the bot: its state, and a test message. Only for the operator."""

from sm.api.context import ApiRequest
from sm.api.operation_routes import OperationTable
from sm.api.views import build_view
from sm.core.models import RequestKey
from sm.operations import daemon_operations as operations
from sm.operations.daemon_operations import BotRecipient
from sm.services import Telegram
from sm.wire_types.telegram_answers import (
    GroupRightsView,
    TelegramChatView,
    TelegramView,
    TestedView,
)

routes = OperationTable()


@routes.carries_out(operations.SHOW_BOT)
async def telegram_status(request: ApiRequest, *, telegram: Telegram) -> TelegramView:
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


@routes.carries_out(operations.TEST_BOT)
async def telegram_test(
    request: ApiRequest, body: BotRecipient, key: RequestKey | None, *, telegram: Telegram
) -> TestedView:
    return TestedView(users=await telegram.test(request.caller, body.user, key))
