"""The operations of accounts. Standard library alone; `accounts` carries them out."""

from sm.core.dataclass import dataclass
from sm.operations import Operation
from sm.operations.access_rules import OPERATOR, Audience
from sm.wire_types.account_answers import AccountView, ResumedView

_TARGET = "The name of an account."


@dataclass(frozen=True, slots=True)
class AccountPause:
    """How to pause an account."""

    soft: bool | None = None
    """Pause no session: what is under way goes on."""
    wait_s: float | None = None
    """How long to wait until nothing spends any more, at most 3600; 10 if null."""


_ACCOUNTS = Audience("manage_accounts", "see, pause or resume accounts", OPERATOR)
"""An account pays for the work of all teams."""
LIST = Operation(
    "accounts",
    "List the accounts that turns of agents are charged to.",
    "GET /v1/accounts",
    list[AccountView],
    audience=_ACCOUNTS,
    command="accounts",
)
PAUSE = Operation(
    "pause_account",
    "Park an account, and pause its live sessions: they spend nothing until it is resumed.",
    "POST /v1/accounts/{name}/pause",
    list[AccountView],
    AccountPause,
    audience=_ACCOUNTS,
    target=_TARGET,
    takes_key=False,
    command="pause --account NAME",
)
RESUME = Operation(
    "resume_account",
    "End the parks of an account: its sessions go on, one after the other.",
    "POST /v1/accounts/{name}/resume",
    ResumedView,
    audience=_ACCOUNTS,
    target=_TARGET,
    takes_key=False,
    command="resume --account NAME",
)
OPERATIONS = (LIST, PAUSE, RESUME)
