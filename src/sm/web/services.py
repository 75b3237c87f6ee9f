"""The parts of the server that its handlers use."""

from dataclasses import dataclass

from sm.web.channels import Channels
from sm.web.daemon_link import DaemonLink
from sm.web.hosts import HostRules
from sm.web.hub import Hub
from sm.web.login_guard import LoginGuard


@dataclass(frozen=True, slots=True)
class WebServices:
    hub: Hub
    link: DaemonLink
    channels: Channels
    logins: LoginGuard
    hosts: HostRules
    instance: str
    """Changes with each start of the server."""
