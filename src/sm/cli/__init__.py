"""The command `sm`: its entry point.

`sm hook` and `sm mcp` run for every tool use of every agent, so this module imports only what they need. Each command
is in a module of `sm.cli.commands`, imported when it is called; `group` lists them.
"""

import sys

TYPE_CHECKING = False  # see wire.py
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    import gc

    gc.disable()  # The imports leave no garbage: collecting would cost 1.5 ms.
    match sys.argv[1:]:
        case ["hook", provider, *options] if not provider.startswith("-") and set(options) <= {
            "--await-tools"
        }:
            _hook(provider, awaits_tools=bool(options))
        case ["mcp", *options] if set(options) <= {"--operator", "--verbose"}:
            _mcp("--verbose" in options)  # returns outside a session
    try:
        if sys.argv[1:] == ["top"] and sys.platform == "linux" and sys.stdout and sys.stderr:
            code = _top()
        else:
            from sm.cli.group import run

            gc.freeze()
            gc.enable()
            code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    except SystemExit:
        raise  # only `sm daemon run` and `sm demo` end the process like this
    except BaseException as error:  # noqa: BLE001  no traceback may reach the user
        from sm.cli.display.errors import print_error

        code = print_error(error)
    _end(code)


def _hook(provider: str, *, awaits_tools: bool) -> "NoReturn":
    """Run `sm hook PROVIDER` without click, and always exit with 0.

    An agent CLI shows a failed hook to its user, and exit code 2 blocks the agent's next action.
    """
    import posix
    import time

    try:
        at_ns = time.time_ns()
        from sm.cli.hook.emit import emit

        emit(provider, at_ns, awaits_tools=awaits_tools)
    finally:
        posix._exit(0)  # `os` would cost 2 ms


def _mcp(verbose: bool) -> None:
    """Run `sm mcp` without click in a session. Every agent has such a process, for as long as it lives."""
    import posix

    socket_path = posix.environ.get(b"SM_SOCKET")
    if not (socket_path and posix.environ.get(b"SM_SESSION_ID")):
        return
    import gc

    from sm.cli.mcp.pump import serve

    gc.freeze()
    gc.enable()
    try:
        serve(socket_path, posix.environ.get(b"SM_TOKEN_FILE"), verbose=verbose)
    finally:
        posix._exit(0)


def _top() -> int:
    """Run `sm top` without click, whose import would be a tenth of the time until the first rows."""
    import os

    from sm.cli.tui.start import run

    return run(os.environ)


def _end(code: int) -> "NoReturn":
    """Exit without the interpreter's teardown, which takes 5 ms."""
    import os

    code = flush_stdout(code)
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    finally:
        os._exit(code)


def flush_stdout(code: int) -> int:
    """Write the rest of the output of a command that ended with `code`. Returns its final exit code."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        if code == 0:  # else the error is already printed
            from sm.cli.display.errors import print_error

            code = print_error(error)
    return code
