"""Sends, delivers and confirms messages between callers and agents."""

from sm.messaging.composer import ComposerDriver
from sm.messaging.delivery import DeliveryWorker
from sm.messaging.inbox import Inbox
from sm.messaging.limit_dialogs import LimitDialogs
from sm.messaging.link_delivery import LinkDelivery
from sm.messaging.messages import Messages
from sm.messaging.receipts import DeliveryReceipts
from sm.messaging.timers import MailTimers

__all__ = [
    "ComposerDriver",
    "DeliveryReceipts",
    "DeliveryWorker",
    "Inbox",
    "LimitDialogs",
    "LinkDelivery",
    "MailTimers",
    "Messages",
]
