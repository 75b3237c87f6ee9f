"""Draws the pictures of the live views in docs/img: `python -m tests.view_pictures`.

Their sessions are played: sleeping scripts whose hooks and transcripts this module writes. The pictures of the page
need Debian's `chromium` and its `fonts-dejavu-core`; the picture of `sm top` is SVG and needs nothing.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.segment import Segment

from tests.browser import DESKTOP, PHONE, Tab, Visitor, chromium
from tests.cli.tui.view import View, top
from tests.demo_picture import SVG_FORMAT
from tests.git_repositories import git
from tests.instance import until
from tests.integration.played_claude import Agent, Stage
from tests.web_server import WebServer, web_server

DIRECTORY = Path("docs/img")
COLUMNS, LINES = 120, 40
_WINDOW = (1160, 700)
_HOME = "/home/ann"
_TYPES = "".join(f"    {name}: {{}}\n" for name in ("Coordinator", "Developer", "Tester", "Writer"))
_SCREEN = r"""
printf '\033[2m> Build the login page\033[0m\r\n\r\n'
printf '\033[32m●\033[0m The form needs a session cookie, so I look at the middleware first.\r\n\r\n'
printf '\033[32m●\033[0m \033[1mRead\033[0m(src/middleware/session.ts)\r\n'
printf '  \033[2m⎿  Read 84 lines\033[0m\r\n\r\n'
printf '\033[32m●\033[0m \033[1mUpdate\033[0m(src/pages/login.tsx)\r\n'
printf '  \033[2m⎿  Added 2 lines, removed 1 line\033[0m\r\n'
printf '     \033[31m- const cookie = req.cookie\033[0m\r\n'
printf '     \033[32m+ const cookie = readSession(req)\033[0m\r\n'
printf '     \033[32m+ if (cookie.isExpired) return signIn()\033[0m\r\n\r\n'
printf '\033[33m✻\033[0m Thinking\r\n'
"""
_LOGIN = """\
import { signIn } from "../auth";

// The page on which customers sign in.
export function Login(req: Request) {
  const cookie = req.cookie
  return <Form cookie={cookie} title="Sign in" />;
}
"""
_STYLES = """\
.form {
  display: grid;
  gap: 4px;
}

.button {
  width: 100%;
}
"""
_QUESTION = {
    "question": "Which address may sign in first?",
    "header": "Address",
    "options": [
        {"label": "example.org only", "description": "the staff"},
        {"label": "every address", "description": "also customers"},
    ],
    "multiSelect": False,
}
_EDIT = {
    "file_path": "src/pages/login.tsx",
    "old_string": "const cookie = req.cookie",
    "new_string": "const cookie = readSession(req)\nif (cookie.isExpired) return signIn()",
}


class Scene:
    """A team at work: two requests are open, a message waits, one agent has failed."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._numbers = iter(range(1, 1000))
        for slug in ("shop", "blog"):
            (stage.home / slug).mkdir()
            if slug == "shop":
                _make_repository(stage.home / slug)
            stage.sm("workspace", "create", slug, "--working-dir", str(stage.home / slug))
        self.lead = self._agent("Coordinator", "lead", "shop")
        self.builder = self._agent("Developer", "login", "shop", self.lead)
        self.tester = self._agent("Tester", "login", "shop", self.lead)
        self.styler = self._agent("Developer", "styles", "shop", self.builder)
        self.writer = self._agent("Writer", "news", "blog")
        fetcher = stage.spawn("Sh", "exit 1", "--name", "icons", "--parent", self.lead.id)["session_id"]
        stage.ended(fetcher)
        spent = ((self.lead, 9_000, 31_000), (self.builder, 12_000, 44_000), (self.tester, 7_000, 12_000))
        for agent, read, written in (*spent, (self.styler, 3_000, 5_000), (self.writer, 4_000, 9_000)):
            self._use(agent, read, written)
        for agent, text in (
            (self.lead, "Waits for the tests of the login page"),
            (self.builder, "Reads the session cookie in the form"),
            (self.styler, "Aligns the two buttons"),
        ):
            stage.sm("note", text, env=stage.as_session(agent.id))
        stage.sm("checkpoint", "The form is written", env=stage.as_session(self.builder.id))
        _change(stage.home / "shop")
        self.tester.send_event("Stop")
        self.permission = self.builder.open_dialog("Edit", _EDIT)
        self.question = self.writer.open_dialog("AskUserQuestion", {"questions": [_QUESTION]})
        stage.sm("send", "--no-wait", self.builder.id, "Mention the new login page too")
        until(lambda: self._row(self.lead)["tree"]["cost_usd"], "the cost")

    def _agent(self, kind: str, name: str, workspace: str, parent: Agent | None = None) -> Agent:
        above = ("--parent", parent.id) if parent is not None else ()
        agent = self.stage.agent(kind, "--name", name, "--workspace", workspace, *above)
        agent.send_event("UserPromptSubmit", prompt=f"Work on {name}")
        return agent

    def _use(self, agent: Agent, read: int, written: int) -> None:
        """Write the words, the task list and the usage of a turn."""
        number = next(self._numbers)
        steps = ["completed"] * number + ["in_progress"] + ["pending"] * (5 - number)
        todos = [{"content": "step", "status": status, "activeForm": "step"} for status in steps]
        message = {
            "id": f"msg_{number}",
            "model": "claude-opus-4-8",
            "content": [
                {"type": "text", "text": "I look at the middleware first."},
                {
                    "type": "tool_use",
                    "id": f"toolu_list{number}",
                    "name": "TodoWrite",
                    "input": {"todos": todos},
                },
            ],
            "usage": {"input_tokens": read, "output_tokens": written, "cache_read_input_tokens": 10 * read},
        }
        # A message that is older than its session would not be its own.
        agent.write_message(message, datetime.now(UTC) + timedelta(seconds=30))

    def _row(self, agent: Agent) -> Any:
        from sm.client import live_stream
        from sm.client.http import Client

        update = next(iter(live_stream.updates(Client(str(self.stage.socket)))))
        return next(row for row in update["rows"] if row["session_id"] == agent.id)


def _make_repository(directory: Path) -> None:
    for path, text in (
        ("src/pages/login.tsx", _LOGIN),
        ("src/styles.css", _STYLES),
        ("src/old.ts", "export {};\n"),
    ):
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    (directory / "logo.png").write_bytes(bytes(3_000))
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "The shop")


def _change(directory: Path) -> None:
    """The work of the agents: changed, new, deleted and renamed files."""
    login = _LOGIN.replace(_EDIT["old_string"], _EDIT["new_string"].replace("\n", "\n  "))
    login = login.replace('"Sign in"', '"Sign in to the shop"').replace(
        "on which customers", "where customers"
    )
    (directory / "src/pages/login.tsx").write_text(login)
    (directory / "src/styles.css").write_text(_STYLES.replace("4px", "8px").replace("100%", "50%"))
    (directory / "src/pages/session.ts").write_text("export const timeout = 30 * 60; // seconds\n")
    (directory / "logo.png").write_bytes(bytes(2_000))
    git(directory, "mv", "src/old.ts", "src/empty.ts")


@contextlib.contextmanager
def scene() -> Iterator[Scene]:
    with Stage(_TYPES, _SCREEN) as stage:
        yield Scene(stage)


def svg(view: View, home: str) -> str:
    """The screen of `sm top` as SVG, without the fonts that rich names: a picture loads nothing from elsewhere.

    `home`: the directory to show as that of a user.
    """
    width, height = view.app.size
    strips = view.app.screen._compositor.render_strips()
    with open("/dev/null", "w", encoding="utf-8") as nowhere:
        console = Console(
            record=True,
            width=width,
            height=height,
            file=nowhere,
            force_terminal=True,
            color_system="truecolor",
        )
        for strip in strips:
            console.print(*_texts(strip, home), sep="", end="\n", no_wrap=True, overflow="crop")
        return console.export_svg(title="sm top", code_format=SVG_FORMAT, unique_id="top")


def _texts(strip: Any, home: str) -> Iterator[Any]:
    from rich.text import Text

    for segment in strip:
        assert isinstance(segment, Segment)
        text = segment.text.replace(home, _HOME).ljust(len(segment.text))
        yield Text(text, segment.style or "", end="")


async def draw_top(found: Scene) -> dict[str, str]:
    """The pictures of `sm top` by their names."""
    pictures = dict[str, str]()
    async with top(found.stage, (COLUMNS, LINES)) as view:
        await view.shows("Needs you: 3", found.permission.name, found.question.name)
        await view.select_request(found.permission.name)
        await view.shows("readSession")
        view.app._notice = ("", 0.0)
        view.app.draw()
        pictures["top"] = svg(view, str(found.stage.home))
        view.app.switch(to_needs=False)
        view.app.board.reveal(found.builder.id, time.monotonic())
        await view.press("T")
        await view.shows("█ running")
        await view.press("down", "down", "left")
        pictures["top-timeline"] = svg(view, str(found.stage.home))
        await view.press("escape")
        await view.select(found.builder.id)
        await view.press("enter", "9")
        await view.shows("5 files", "readSession", "\n src/styles.css +2 -2")
        pictures["top-changes"] = svg(view, str(found.stage.home))
    return pictures


def draw_page(found: Scene, server: WebServer) -> dict[str, bytes]:
    """The pictures of the page by their names."""
    pictures = dict[str, bytes]()

    def shoot(tab: Tab) -> bytes:
        tab.page.mouse.move(2, 2)
        tab.page.evaluate("document.activeElement.blur()")
        return tab.page.screenshot()

    with chromium() as browser:
        visitor = Visitor(browser, server)
        for name, size, scheme in (
            ("web-dark", _WINDOW, "dark"),
            ("web-light", _WINDOW, "light"),
            ("web-phone", PHONE, "dark"),
        ):
            touch = size == PHONE
            with visitor.tab(size, color_scheme=scheme, has_touch=touch, is_mobile=touch) as tab:
                tab.request(found.permission.name)
                pictures[name] = shoot(tab)
        with visitor.tab(DESKTOP, f"#/s/{found.builder.id}/peek", color_scheme="dark") as tab:
            tab.until(lambda: "Thinking" in tab.find(".screen").inner_text(), "the terminal")
            pictures["web-session"] = tab.find(".session").screenshot()
    return pictures


def main() -> None:
    DIRECTORY.mkdir(exist_ok=True)
    with scene() as found:
        for name, text in asyncio.run(draw_top(found)).items():
            (DIRECTORY / f"{name}.svg").write_text(text, encoding="utf-8")
        with web_server(found.stage, "--scope", "all") as server:
            for name, picture in draw_page(found, server).items():
                (DIRECTORY / f"{name}.png").write_bytes(picture)


if __name__ == "__main__":
    main()
