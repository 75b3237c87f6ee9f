"""The environment that a client sends with the start of an agent."""

import os


def environment() -> dict[str, str]:
    """Copy the environment without variables that are not UTF-8. The daemon keeps only the configured variables."""
    variables = {}
    for name, value in os.environ.items():
        try:
            (name + value).encode("utf-8")
        except UnicodeEncodeError:
            continue
        variables[name] = value
    return variables
