"""Starts `sm top`. Its first rows come soon: nothing that they do not need is imported before them."""

import gc
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sm.cli.instance import Instance
from sm.errors import NotPermitted, UsageError

if TYPE_CHECKING:
    from sm.cli.tui.app import TopApp


def run(environ: Mapping[str, str]) -> int:
    """Show the view until the person leaves it, and return the exit code."""
    instance = Instance(environ)
    if instance.session_id is not None:
        raise NotPermitted("sm top is for people, not for agents", "to list sessions: sm ls")
    gc.disable()  # the imports and the first drawing leave little garbage, and collections take 7% of their time
    try:
        return _show(_app(instance))
    finally:
        gc.enable()


def _app(instance: Instance) -> "TopApp":
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        _ = _app_class()  # a missing package is told first
        raise UsageError("sm top needs a terminal", "to list sessions: sm ls")
    from sm.cli.tui.kept import KeptChoices
    from sm.cli.tui.source import ThreadedSource, answer_of
    from sm.feed import live_request

    kept = KeptChoices(instance.paths.views)
    source = ThreadedSource(instance.client(start=False))

    def begin() -> None:
        instance.client().get("/v1/health")  # starts the daemon, or says why that fails
        source.read_ahead(*live_request(archived=kept.read().archived))

    # The daemon prepares the rows while this process imports textual, which takes half of the start.
    begun = answer_of(begin)
    app_class = _app_class()
    begun.result()
    return app_class(instance.client(start=False), kept=kept, source=source, started=_collect)


def _app_class() -> "type[TopApp]":
    try:
        from sm.cli.tui.app import TopApp
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "textual":
            raise
        from sm.cli.installation import TEXTUAL, install_command

        raise UsageError(
            "sm top needs the package textual, which is not installed here",
            f"install it: {install_command(TEXTUAL)}",
        ) from None
    return TopApp


def _collect() -> None:
    """Begin to collect garbage.

    The modules and most rows stay until the end, and rows form no cycles. To look through them at each collection takes
    a tenth of the time of the view.
    """
    gc.freeze()
    gc.enable()


def _show(app: "TopApp") -> int:
    from sm.cli.tui.ending import end_at_last

    app.run()
    code = app.return_code or 0
    end_at_last(code)
    return code
