"""A played shell, for the scripts of tests: simple commands, one after the other, and loops.

It knows `echo`, `printf`, `read`, `sleep`, `exec`, `exit`, `seq`, `cat`, `head -c`, `stty`, `true`, `false`, `touch`,
`pwd`, `kill PID`, `trap` for SIGINT, `[ -e FILE ]`, `while`, `until`, assignments, `$NAME`, `$?`, `$1` to `$9`,
`> FILE`, `>> FILE`, `2> FILE`, `2>&1`, and `sm` where the stage has it.
"""

import asyncio
import os
import re
import shlex
import signal
import termios
from collections.abc import Sequence
from functools import partial

from sm.sessions.place_commands import RUN_EACH
from tests.sim.programs import Ended, Running
from tests.sim.scripts import NOT_FOUND

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+|\?))")
_RAW = 0
_STDERR = "\x02"
"""Stands for the 2 of `2> FILE` and `2>&1`."""
_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\033": "\x1b", r"\0": "\0"}


async def shell(program: Running) -> int:
    """Run `sh -c SCRIPT [NAME [ARGUMENT...]]`."""
    _, _, script, *arguments = program.argv
    if script == RUN_EACH:
        return await _run_each(program, arguments[1:])
    return await _Shell(program, arguments[1:]).run(_statements(script))


async def _run_each(program: Running, commands: Sequence[str]) -> int:
    for command in commands:
        program.print(f"+ {command}")
        try:
            code = await _Shell(program, ()).run(_statements(command))
        except Ended as ended:
            code = ended.code
        if code:
            return code
    return 0


def _statements(script: str) -> list[list[str]]:
    """Split at `;` and line ends. A word keeps its quotes' content as one word, marked as literal by a leading NUL."""
    script = re.sub(r"(?<=\s)2(?=>)", _STDERR, script)
    reader = shlex.shlex(script, posix=False, punctuation_chars=";\n>")
    reader.whitespace, reader.whitespace_split, reader.commenters = " \t", True, ""
    found: list[list[str]] = [[]]
    for word in reader:
        if set(word) <= {";", "\n"}:
            found.append([])
        else:
            found[-1].append(word)
    return [words for words in found if words]


class _Shell:
    def __init__(self, program: Running, arguments: Sequence[str]) -> None:
        self._program = program
        self._variables = dict(program.environ) | {str(n): a for n, a in enumerate(arguments, 1)}

    async def run(self, statements: list[list[str]]) -> int:
        code, at = 0, 0
        while at < len(statements):
            words = statements[at]
            if words[0] in ("while", "until"):
                end, is_until = _end_of(statements, at), words[0] == "until"
                condition, body = words[1:], [*([statements[at + 1][1:]] if statements[at + 1][1:] else [])]
                body += statements[at + 2 : end]
                while (await self._run(condition) == 0) is not is_until:
                    code = await self.run(body)
                at = end + 1
                continue
            code = await self._run(words)
            self._variables["?"] = str(code)
            at += 1
        return code

    async def _run(self, words: Sequence[str]) -> int:
        target: str | None = None
        errors: str | None = None
        rest, words = list(words), []
        while rest:
            word = rest.pop(0)
            if word == _STDERR:
                _, name = rest.pop(0), rest.pop(0)
                errors = target if name == "&1" else self._opened(name)
            elif word in (">", ">>"):
                target = self._opened(rest.pop(0))
            else:
                words.append(word)
        words = [self._expanded(word) for word in words]
        while words and re.fullmatch(r"\w+=.*", words[0], re.DOTALL):
            name, _, value = words.pop(0).partition("=")
            self._variables[name] = value
        if not words:
            return 0
        return await self._call(words, target, errors)

    def _opened(self, word: str) -> str:
        """The path of a file that takes output."""
        path = self._program.file(self._expanded(word))
        with open(path, "ab"):
            return path

    def _expanded(self, word: str) -> str:
        if word.startswith("'") and word.endswith("'") and len(word) > 1:
            return word[1:-1]
        text = word[1:-1] if word.startswith('"') and word.endswith('"') and len(word) > 1 else word
        return _VARIABLE.sub(lambda found: self._variables.get(found[1] or found[2], ""), text)

    def _write(self, text: str, target: str | None) -> None:
        if target is None:
            self._program.write(text)
            return
        with open(target, "a", encoding="utf-8") as file:
            file.write(text)

    async def _call(self, words: list[str], target: str | None, errors: str | None) -> int:
        program = self._program
        match words:
            case ["exec", *rest]:
                raise Ended(await self._exec(rest, target, errors))
            case ["exit"]:
                raise Ended(0)
            case ["exit", code]:
                raise Ended(int(code))
            case ["true"] | [":", *_]:
                return 0
            case ["false"]:
                return 1
            case ["echo", *rest]:
                self._write(" ".join(rest) + "\n", target)
            case ["printf", form, *rest]:
                self._write(_formatted(form, rest), target)
            case ["seq", first, last]:
                self._write("".join(f"{n}\n" for n in range(int(first), int(last) + 1)), target)
            case ["sleep", seconds]:
                await asyncio.sleep(float(seconds))
            case ["read", *names]:
                self._variables[names[-1]] = await program.read_line()
            case ["stty", *modes]:
                program.set_flags(_flags(program.flags, modes))
            case ["touch", path]:
                with open(program.file(path), "ab"):
                    pass
            case ["pwd"]:
                self._write(program.process.cwd + "\n", target)
            case ["kill", pid]:
                program.signal(int(pid))
            case ["trap", action, *names]:
                react = partial(self._trapped, _statements(action)) if action else _ignore
                for name in names:
                    program.process.handlers[signal.Signals[f"SIG{name}"]] = react
            case ["[", "-e", path, "]"]:
                return 0 if os.path.exists(self._program.file(path)) else 1
            case ["[", "!", "-e", path, "]"]:
                return 1 if os.path.exists(self._program.file(path)) else 0
            case ["cat", path]:
                with open(self._program.file(path), encoding="utf-8") as file:
                    self._write(file.read(), target)
            case ["cat"]:
                while True:
                    self._write(await program.read_line() + "\n", target)
            case ["head", "-c", size]:
                text = ""
                while len(text) < int(size):
                    kind, more = await program.read()
                    text += more if kind == "text" else "\r"
                self._write(text, target)
            case ["sm", *arguments] if program.sm_command is not None:
                done = await program.sm_command(program, arguments)
                self._write(done.stdout, target)
                self._write(done.stderr, errors)
                return done.returncode
            case _:
                name = words[0]
                program.print(f"sh: 1: {name}: not found")
                return NOT_FOUND
        return 0

    def _trapped(self, steps: list[list[str]]) -> None:
        """Carry out the action of a trap. The script goes on unless the action exits."""
        self._program.react(self._act(steps))

    async def _act(self, steps: list[list[str]]) -> int | None:
        try:
            await self.run(steps)
        except Ended as ended:
            return ended.code
        return None

    async def _exec(self, words: list[str], target: str | None, errors: str | None) -> int:
        handlers = self._program.process.handlers
        for number in [number for number, react in handlers.items() if react is not _ignore]:
            del handlers[number]
        if words and self._program.is_installed(words[0]):
            return await self._program.become(words)
        return await self._call(words, target, errors)


def _ignore() -> None:
    """Do nothing about a signal, as after `trap ''`."""


def _end_of(statements: list[list[str]], begin: int) -> int:
    """The place of the `done` of a loop."""
    depth = 0
    for at in range(begin, len(statements)):
        depth += statements[at][0] in ("while", "until")
        depth -= statements[at][0] == "done"
        if depth == 0:
            return at
    raise AssertionError("a loop without done")


def _formatted(form: str, values: Sequence[str]) -> str:
    for mark, text in _ESCAPES.items():
        form = form.replace(mark, text)
    if "%s" not in form:
        return form
    return "".join(form.replace("%s", value, 1) for value in values)


def _flags(flags: int, modes: Sequence[str]) -> int:
    for mode in modes:
        match mode:
            case "raw":
                flags = flags & termios.ECHO
            case "-echo":
                flags &= ~termios.ECHO
            case "echo":
                flags |= termios.ECHO
            case _:
                raise AssertionError(f"the played shell does not know stty {mode}")
    return flags
