"""The first steps of a person who has no sessions. Pure."""

from sm.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FirstStep:
    title: str
    command: str
    action: str = ""
    """The name of the board action that does the same, if there is one."""


FIRST_STEPS = (
    FirstStep("Let agents work in the directory of your project", "sm trust DIRECTORY"),
    FirstStep("Start an agent there; sm agents lists the types", 'sm spawn TYPE "TASK"', "spawn"),
    FirstStep("Answer what it asks, also from your phone", "sm web link --phone"),
)
