"""Writes the picture of the rooms in docs/architecture.md: `python -m tests.room_picture`.

The rooms and their order come from the `layers` contract in pyproject.toml, a room's purpose from the first line of its
docstring, and the arrows from the imports of the code. Arrows that a path of other arrows implies are omitted.
"""

import ast
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import grimp

DOCUMENT = Path("docs/architecture.md")
BEGIN, END = "<!-- begin: python -m tests.room_picture -->", "<!-- end: python -m tests.room_picture -->"
BANDS: Mapping[str, tuple[str, ...]] = {
    "Front doors": ("cli", "server", "api", "mcp", "telegram", "web"),
    "Process": ("daemon",),
    "Views": ("services", "feed", "board"),
    "Capabilities": ("capabilities",),
    "Kernel": ("kernel", "messaging", "monitor", "requests", "sessions", "equipment"),
    "Storage": ("state", "store"),
    "Drivers": ("notifiers", "providers", "sandboxes", "terminals"),
    "Foundation": ("config", "linux", "policy", "client", "wire_types", "core"),
}
LEAVES = {"errors", "operations", "paths", "registry", "section", "wire"}
"""Modules that any room may import: only the table shows them, not the picture."""


def rooms() -> list[str]:
    """Every existing room of the layers contract, from top to bottom."""
    settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["id"] == "layers"
    )
    names = [name.strip() for line in layers for name in line.replace("|", ":").split(":")]
    return [name for name in names if not name.startswith("(")]


def imports(names: Iterable[str]) -> dict[str, set[str]]:
    """The rooms that each room imports."""
    graph = grimp.build_graph("sm")
    found: dict[str, set[str]] = {}
    for name in names:
        modules = {f"sm.{name}", *graph.find_descendants(f"sm.{name}")}
        imported = {
            target for module in modules for target in graph.find_modules_directly_imported_by(module)
        }
        found[name] = {target.split(".")[1] for target in imported if "." in target} - {name}
    return found


def reduce_edges(edges: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """The arrows of an acyclic graph without those that a path of other arrows implies."""

    def reachable(name: str) -> set[str]:
        return {room for target in edges[name] for room in (target, *reachable(target))}

    return [
        (name, target)
        for name in edges
        for target in sorted(edges[name])
        if not any(target in reachable(other) for other in edges[name] - {target})
    ]


def purpose(name: str) -> str:
    """The first line of the room's docstring."""
    folder = Path("src/sm") / name
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def picture() -> str:
    """The block of mermaid and the table of rooms."""
    names = rooms()
    lines = ["```mermaid", "flowchart TD"]
    for number, (band, members) in enumerate(BANDS.items()):
        lines.append(f'    subgraph band{number}["{band}"]')
        lines += [f"        {name}" for name in members if name in names]
        lines.append("    end")
    lines += [
        f"    {name} --> {target}" for name, target in reduce_edges(imports(names)) if target not in LEAVES
    ]
    lines += ["```", "", "| room | purpose |", "|---|---|"]
    lines += [f"| `{name}` | {purpose(name)} |" for name in names]
    return "".join(f"{line}\n" for line in lines)


def written(document: str) -> str:
    """The document with the current picture. Raises AssertionError for a document without the marks."""
    before, begin, rest = document.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    assert begin, f"{DOCUMENT} has no line {BEGIN}"
    assert end, f"{DOCUMENT} has no line {END}"
    return f"{before}{begin}{picture()}{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
