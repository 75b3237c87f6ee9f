"""The operations of the daemon itself and of its bot."""

from sm.core.dataclass import dataclass
from sm.operations import AgentOperation, Operation
from sm.operations.arguments import InWorkspace
from sm.wire_types.daemon import (
    ConfigView,
    EndedOrphansView,
    HealthView,
    OrphanProcessView,
    StatusOverview,
    StoppedView,
)
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


CHECK_HEALTH = AgentOperation("health", "Check that the daemon answers.", "GET /v1/health", HealthView)
SHOW_OVERALL_STATUS = AgentOperation(
    "status",
    "Show an overview in numbers.",
    "GET /v1/status",
    StatusOverview,
    InWorkspace,
    command="status",
)
READ_CONFIG = Operation(
    "config",
    "Apply a change of config.yaml now, and show what of the file applies.",
    "GET /v1/config",
    ConfigView,
)
LIST_ORPHANS = AgentOperation(
    "orphans",
    "List the live processes that ended sessions left behind.",
    "GET /v1/orphans",
    list[OrphanProcessView],
)
KILL_ORPHANS = AgentOperation(
    "kill_orphans",
    "End the processes that ended sessions left behind, and look again.",
    "POST /v1/orphans/kill",
    EndedOrphansView,
    OrphanEnd,
    takes_key=False,
)
STOP = Operation(
    "stop_daemon",
    "Stop the daemon; with `all` kill every session and remove every container first.",
    "POST /v1/daemon/stop",
    StoppedView,
    StopOptions,
    command="daemon stop",
    audit="stop",
    takes_key=False,
)
SHOW_BOT = Operation(
    "telegram_status",
    "Show the state of the bot of Telegram.",
    "GET /v1/telegram",
    TelegramView,
    command="telegram status",
)
TEST_BOT = Operation(
    "telegram_test",
    "Send a test message to the owners, or to one user.",
    "POST /v1/telegram/test",
    TestedView,
    BotRecipient,
    command="telegram test",
)
