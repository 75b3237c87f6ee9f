"""The routes of the bot: its state, and a test message. Only for the operator."""

from typing import Annotated

from sm.api.answers.telegram import TelegramView, TestedView
from sm.api.body import Body
from sm.api.context import ApiRequest
from sm.api.fields import doc
from sm.api.route import RouteTable
from sm.core.models import RequestKey

routes = RouteTable()


class TelegramTestBody(Body):
    user: Annotated[str | None, doc("An owner or a paired user; null: all owners.")] = None


@routes.route("GET", "/v1/telegram", agents=False)
async def telegram_status(request: ApiRequest) -> TelegramView:
    """Show the state of the bot of Telegram."""
    status = await request.services.telegram.status(request.caller)
    return {
        "configured": status.configured,
        "bot": status.bot,
        "last_answer_s": None if status.last_answer_s is None else round(status.last_answer_s, 1),
        "trouble": status.trouble,
        "waiting": status.waiting,
        "dropped": status.counts.dropped,
        "left_out": status.counts.left_out,
        "last_dropped": [
            {"at": call.at, "chat_id": call.chat_id, "method": call.method, "reason": call.reason}
            for call in status.dropped
        ],
        "chats": [
            {"chat_id": chat.chat_id, "kind": chat.kind, "title": chat.title, "seen_at": chat.seen_at}
            for chat in status.chats
        ],
        "owners": list(status.owners),
        "paired": status.paired,
        "groups": [
            {
                "chat_id": group.chat_id,
                "title": group.title,
                "is_forum": group.is_forum,
                "manages_topics": group.manages_topics,
                "reads_all": group.reads_all,
                "problem": group.problem,
            }
            for group in status.groups
        ],
        "clock_ahead_s": None if status.clock_ahead_s is None else round(status.clock_ahead_s, 1),
    }


@routes.route("POST", "/v1/telegram/test", agents=False)
async def telegram_test(request: ApiRequest, body: TelegramTestBody, key: RequestKey | None) -> TestedView:
    """Send a test message to the owners, or to one user."""
    return {"users": await request.services.telegram.test(request.caller, body.user, key)}
