"""Questions and permission requests of agents, and the answers to them."""

from sm.requests.always_allowed import AlwaysAllowed
from sm.requests.answers import Requests
from sm.requests.dialogs import Dialogs
from sm.requests.rule_writer import RuleWriter
from sm.requests.setup import SetupDialogs
from sm.requests.terminal_dialogs import TerminalDialogs

__all__ = ["AlwaysAllowed", "Dialogs", "Requests", "RuleWriter", "SetupDialogs", "TerminalDialogs"]
