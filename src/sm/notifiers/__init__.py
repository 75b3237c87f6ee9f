"""Every way to tell the operator outside of `sm`, by the kind of effect that asks for it."""

from collections.abc import Callable, Mapping

from sm.config import Config
from sm.notifiers.base import Notifier
from sm.notifiers.command import CommandNotifier
from sm.notifiers.webhook import WebhookNotifier
from sm.state.notices import COMMAND, WEBHOOK

NOTIFIERS: Mapping[str, Callable[[Config], Notifier]] = {
    COMMAND: lambda config: CommandNotifier(config.notify.command),
    WEBHOOK: lambda config: WebhookNotifier(config.notify.webhooks),
}
