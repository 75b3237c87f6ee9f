"""The settings of accounts: their section of config.yaml."""

from pydantic import Field

from sm.section import Section


class QuotaSettings(Section):
    """Usage limits of accounts."""

    stagger_s: float = Field(default=5.0, ge=0, le=3600)
    """Seconds between two sessions that go on when the limit of their account is over."""


class QuotaSection(Section):
    """The keys of accounts in config.yaml."""

    quota: QuotaSettings = QuotaSettings()
    """Usage limits of accounts. At the reset one session tries first; when it succeeds, the others follow."""


CONFIG = QuotaSection
