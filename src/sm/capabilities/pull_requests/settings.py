"""The settings of pull requests: their section of config.yaml."""

from pydantic import Field

from sm.section import Section


class PullRequestSettings(Section):
    """Pull requests of agents (`sm pr`)."""

    retries: int = Field(default=3, ge=0, le=100)
    """How many failed checks of a pull request are sent to its agent. Later ones are only events."""


class PullRequestsSection(Section):
    """The keys of config.yaml for pull requests."""

    pr: PullRequestSettings = PullRequestSettings()
    """Pull requests of agents."""


CONFIG = PullRequestsSection
