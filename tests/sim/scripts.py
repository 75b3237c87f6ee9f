"""Reads launch scripts, as a played shell carries them out."""

import shlex

NOT_FOUND = 127


def parse_script(text: str) -> tuple[str, list[str], dict[str, str]]:
    """The working directory, the argv and the environment in a launch script (sandboxes/launch.py)."""
    directory, argv, environ, statement = "/", list[str](), dict[str, str](), ""
    for line in text.split("\n"):
        statement += line
        try:
            words = shlex.split(statement)
        except ValueError:  # a value with a line end
            statement += "\n"
            continue
        statement = ""
        match words:
            case ["cd", "--", where, *_]:
                directory = where
            case ["set", "--", *all]:
                argv = all
            case ["export", assignment]:
                name, _, value = assignment.partition("=")
                environ[name] = value
            case _:
                pass
    return directory, argv, environ
