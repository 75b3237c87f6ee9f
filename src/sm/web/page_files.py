"""The files of the page, as they are when the server starts.

Their address contains their digest. So a browser asks for them once, and never mixes two versions.
"""

import gzip
import hashlib
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web

STATIC = Path(__file__).with_name("static")
TERMINAL_PAGE = "/attach"
_PAGES = {"/": "index.html", TERMINAL_PAGE: "attach.html"}
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_SCRIPT = re.compile(rb'<script type="module" src="/static/([^"]+)">')
_COMMENTS = {
    ".css": re.compile(rb"/\*.*?\*/", re.DOTALL),
    ".js": re.compile(rb"^[ \t]*(?://.*|/\*\*.*\*/)$", re.MULTILINE),
}
"""The lines of JavaScript stay, so that their numbers are those of the source."""
_FILE = re.compile(rb'"/static/([^"]+)"')
_IMPORT = re.compile(rb'^(?:import|export)\b[^;]*?"(\.{1,2}/[^"]+)";', re.MULTILINE)


class PageFiles:
    def __init__(self, directory: Path = STATIC) -> None:
        paths = sorted(path for path in directory.rglob("*") if path.suffix in _TYPES)
        names = [path.relative_to(directory).as_posix() for path in paths]
        self._files = {name: _without_comments(name, directory / name) for name in names}
        digest = hashlib.sha256()
        for name, content in self._files.items():
            digest.update(f"{name} {len(content)} ".encode() + content)
        self.prefix = f"/static/{digest.hexdigest()[:16]}/"
        """The content at addresses below it never changes."""
        self._pages = {path: self._page(name) for path, name in _PAGES.items()}

    def add_routes(self, app: web.Application) -> None:
        for path in self._pages:
            app.router.add_get(path, self._serve_page)
        app.router.add_get(self.prefix + "{name:.+}", self._serve)
        app.router.add_static("/static", STATIC, follow_symlinks=False, show_index=False)

    def cache_control(self, path: str, status: int) -> str:
        """The header of an answer."""
        if not path.startswith("/static/") or status not in (200, 206, 304):
            return "no-store"
        return "max-age=31536000, immutable" if path.startswith(self.prefix) else "no-cache"

    def gzipped_bytes(self, name: str) -> Mapping[str, int]:
        """The size of a page and of each file that it asks for at once, each compressed by itself."""
        page = self._files[name]
        names = [name.decode() for name in _FILE.findall(page)]
        for script in _SCRIPT.findall(page):
            names += _imported(self._files, script.decode())
        return {asked: len(gzip.compress(self._files[asked])) for asked in (name, *dict.fromkeys(names))}

    def _page(self, name: str) -> bytes:
        """A page, which asks for all of its modules at once: each one tells the next ones only when it has come."""
        page = self._files[name]
        script = _SCRIPT.search(page)
        assert script is not None
        modules = _imported(self._files, script[1].decode())
        links = "".join(f'<link rel="modulepreload" href="/static/{module}">\n' for module in modules)
        page = page[: script.start()] + links.encode() + page[script.start() :]
        return page.replace(b'"/static/', f'"{self.prefix}'.encode())

    async def _serve_page(self, request: web.Request) -> web.Response:
        return web.Response(body=self._pages[request.path], content_type="text/html", charset="utf-8")

    async def _serve(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._files:
            raise web.HTTPNotFound
        kind = _TYPES[posixpath.splitext(name)[1]]
        return web.Response(body=self._files[name], content_type=kind, charset="utf-8")


def _without_comments(name: str, path: Path) -> bytes:
    """The file without lines of comments, which are a tenth of the page. Vendored files keep their licences."""
    content = path.read_bytes()
    pattern = _COMMENTS.get(path.suffix)
    return content if pattern is None or name.startswith("vendor/") else pattern.sub(b"", content)


def _imported(files: Mapping[str, bytes], name: str) -> list[str]:
    """The modules that a module imports, with those that they import."""
    found, waiting = dict[str, None](), [name]
    while waiting:
        importer = waiting.pop()
        for address in _IMPORT.findall(files[importer]):
            module = posixpath.normpath(posixpath.join(posixpath.dirname(importer), address.decode()))
            if module not in found:
                found[module] = None
                waiting.append(module)
    return list(found)
