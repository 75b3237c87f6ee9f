"""The operations of the daemon itself and of its bot."""

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import EVERY_CALLER, OPERATOR, OPERATOR_AND_OWNERS, SEE, Audience
from sm.operations.arguments import InWorkspace
from sm.operations.request_operations import SEE_REQUESTS_OF, SeenRule
from sm.operations.session_operations import KILL
from sm.wire_types.daemon import (
    ConfigView,
    EndedOrphansView,
    HealthView,
    OrphanProcessView,
    StatusOverview,
    StoppedView,
)
from sm.wire_types.request_answers import WrittenRuleView
from sm.wire_types.telegram_answers import TelegramView, TestedView


@dataclass(frozen=True, slots=True)
class OrphanEnd:
    force: bool | None = None


@dataclass(frozen=True, slots=True)
class StopOptions:
    all: bool | None = None


@dataclass(frozen=True, slots=True)
class BotRecipient:
    user: str | None = None
    """An owner or a paired user, or null for all owners."""


_BOT = Audience("manage_bot", "see or test the bot", OPERATOR_AND_OWNERS)
MUTE_GROUP = Audience("mute_group", "mute all reports in a group", OPERATOR_AND_OWNERS)
"""Everybody in the group would miss them. A user may mute each session that they see."""
CHECK_HEALTH = Operation(
    "health",
    "Check that the daemon answers.",
    "GET /v1/health",
    HealthView,
    audience=EVERY_CALLER,
)
SHOW_OVERALL_STATUS = Operation(
    "status",
    "Show an overview in numbers.",
    "GET /v1/status",
    StatusOverview,
    InWorkspace,
    audience=EVERY_CALLER,
    rules=(SEE, SEE_REQUESTS_OF),
    command="status",
)
READ_CONFIG = Operation(
    "config",
    "Apply a change of config.yaml now, and show what of the file applies.",
    "GET /v1/config",
    ConfigView,
    audience=Audience("read_config", "see the configuration of the daemon", OPERATOR),
)
UNDO_RULE = Operation(
    "undo_rule",
    "Remove the newest permission rule from rules.yaml.",
    "POST /v1/config/undo",
    WrittenRuleView,
    SeenRule,
    audience=Audience("undo_rule", "remove permission rules", OPERATOR),
    command="config undo",
    takes_key=False,
)
LIST_ORPHANS = Operation(
    "orphans",
    "List the live processes that ended sessions left behind.",
    "GET /v1/orphans",
    list[OrphanProcessView],
    audience=EVERY_CALLER,
    rules=(SEE,),
)
KILL_ORPHANS = Operation(
    "kill_orphans",
    "End the processes that ended sessions left behind, and look again.",
    "POST /v1/orphans/kill",
    EndedOrphansView,
    OrphanEnd,
    audience=EVERY_CALLER,
    rules=(SEE, KILL.audience),
    takes_key=False,
)
STOP = Operation(
    "stop_daemon",
    "Stop the daemon; with `all` kill every session and remove every container first.",
    "POST /v1/daemon/stop",
    StoppedView,
    StopOptions,
    audience=Audience("stop_daemon", "stop the daemon", OPERATOR),
    command="daemon stop",
    audit="stop",
    takes_key=False,
)
SHOW_BOT = Operation(
    "telegram_status",
    "Show the state of the bot of Telegram.",
    "GET /v1/telegram",
    TelegramView,
    audience=_BOT,
    command="telegram status",
)
TEST_BOT = Operation(
    "telegram_test",
    "Send a test message to the owners, or to one user.",
    "POST /v1/telegram/test",
    TestedView,
    BotRecipient,
    audience=_BOT,
    command="telegram test",
)
