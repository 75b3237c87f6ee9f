"""Reads launch scripts, as a played shell carries them out."""

import re

NOT_FOUND = 127
_STATEMENT = re.compile(r"""(?:[^'"\\\n]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
_PART = re.compile(r"'([^']*)'|\\(.)|\"((?:[^\"\\]|\\.)*)\"|([^\s'\\\"]+)|(\s+)", re.DOTALL)


def parse_script(text: str) -> tuple[str, list[str], dict[str, str]]:
    """The working directory, the argv and the environment in a launch script (sandboxes/launch.py)."""
    directory, argv, environ = "/", list[str](), dict[str, str]()
    for statement in _STATEMENT.findall(text):  # a quoted value may have line ends
        match _words(statement):
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


def _words(statement: str) -> list[str]:
    """Split as `shlex.split`, which takes a tenth of a second for a briefing."""
    words, word = list[str](), None
    for single, escaped, double, plain, blank in _PART.findall(statement):
        if blank:
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + single + escaped + re.sub(r"\\(.)", r"\1", double) + plain
    return words if word is None else [*words, word]
