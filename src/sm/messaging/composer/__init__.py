"""Types messages into the input boxes of agents: a pure machine decides, a driver carries out its instructions."""

from sm.messaging.composer.driver import ComposerDriver

__all__ = ["ComposerDriver"]
