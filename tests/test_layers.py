"""Layering rules of `src/sm` that import-linter cannot express."""

import ast
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

SOURCES = Path(__file__).parents[1] / "src"
MODULES = {
    ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCES.rglob("*.py")
}


def test_only_linux_modules_name_paths_in_proc() -> None:
    def literals(path: Path) -> list[str]:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text if "/proc/" in text else "")
        strings = [
            n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
        return [s for s in strings if s.startswith("/proc/")]

    assert {name.rpartition(".")[0] for name, path in MODULES.items() if literals(path)} == {"sm.linux"}


def test_package_imports_nothing_that_imports_it() -> None:
    """With the contract `circles`, which sees a package only together with its modules: no circle of files."""
    graph = grimp.build_graph("sm", exclude_type_checking_imports=False, cache_dir=None)
    importers = {
        package: [m for m in graph.find_modules_that_directly_import(package) if m.startswith(f"{package}.")]
        for package in graph.modules
    }
    assert importers["sm.cli"] == ["sm.cli.__main__"]
    assert not [
        (package, module)
        for package, modules in importers.items()
        for module in modules
        if graph.chain_exists(importer=package, imported=module)
    ]


@pytest.mark.processes
def test_cli_start_imports_no_heavy_modules() -> None:
    code = (
        "import sys; import sm.cli, sm.client.http, sm.cli.commands.lists, sm.core.lines\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "click" in loaded
    heavy = {
        "aiohttp",
        "asyncio",
        "http",
        "pydantic",
        "rich",
        "yaml",
        "orjson",
        "subprocess",
        "pathlib",
        "dataclasses",
    }
    assert not heavy & set(loaded)
