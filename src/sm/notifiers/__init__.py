"""The registry of notifiers, by the kind of effect that each one carries out."""

from collections.abc import Callable, Mapping

from sm.config import Config
from sm.core.effects import EffectKind
from sm.notifiers.base import Notifier
from sm.notifiers.command import CommandNotifier
from sm.notifiers.webhook import WebhookNotifier

NOTIFIERS: Mapping[str, Callable[[Config], Notifier]] = {
    EffectKind.COMMAND: lambda config: CommandNotifier(config.notify.command),
    EffectKind.WEBHOOK: lambda config: WebhookNotifier(config.notify.webhooks),
}
