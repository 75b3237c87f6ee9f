"""Which module may know which: design section 4, read from the imports themselves."""

import ast
from pathlib import Path

import pytest

SOURCE = Path("src/sm")
MODULES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}

PURE = {
    f"sm.{name}"
    for name in (
        "store.rows errors models mail evidence lifecycle policy trust text progress usage family wording views places"
        " wire limits worktrees rules shell naming tokens"
    ).split()
}
IMPURE_STANDARD = {
    "asyncio", "ctypes", "fcntl", "glob", "io", "logging", "os", "pathlib", "random", "secrets", "select",
    "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time",
}  # fmt: skip
OUTSIDE = {"aiohttp", "aiosqlite", "click", "orjson", "pydantic", "rich", "yaml"}

# Each: who, and what of ours it may import (a trailing dot: everything below).
MAY_IMPORT = {
    "sm.client": {"sm", "sm.errors", "sm.places", "sm.wire"},
    # What the manager writes within its transactions, each part above those that it uses.
    "sm.recall": {"sm.errors", "sm.models", "sm.store"},
    "sm.notices": {"sm.config", "sm.lifecycle", "sm.mail", "sm.models", "sm.store", "sm.wording"},
    "sm.asking": {"sm.errors", "sm.mail", "sm.models", "sm.notices", "sm.store", "sm.text", "sm.wording"},
    "sm.endings": {
        "sm.asking", "sm.config", "sm.lifecycle", "sm.mail", "sm.models", "sm.notices", "sm.store", "sm.wording",
    },
    "sm.capabilities": {"sm.errors", "sm.mcp_files", "sm.models", "sm.providers.base", "sm.text"},
    "sm.mcp_files": {"sm.errors", "sm.text"},
    "sm.counting": {"sm.lifecycle", "sm.limits", "sm.models", "sm.store"},
    # Definitions in files: it reads them, and knows of nobody but who configures what.
    "sm.agent_types": {"sm.config", "sm.errors", "sm.models", "sm.places", "sm.text"},
    "sm.manager": {
        "sm.audit", "sm.counting", "sm.endings", "sm.errors", "sm.family", "sm.lifecycle", "sm.mail", "sm.models",
        "sm.notices", "sm.policy", "sm.providers.base", "sm.store", "sm.wording",
    },
    # The use cases above it: they call the manager, and know neither HTTP nor the outside world.
    "sm.starts": {
        "sm.agent_types", "sm.endings", "sm.errors", "sm.evidence", "sm.lifecycle", "sm.manager", "sm.models",
        "sm.policy", "sm.recall", "sm.sandboxes.base", "sm.spawning", "sm.store", "sm.wording",
    },
    "sm.kills": {
        "sm.errors", "sm.family", "sm.lifecycle", "sm.manager", "sm.models", "sm.policy", "sm.recall", "sm.store",
    },
    "sm.reports": {
        "sm", "sm.asking", "sm.endings", "sm.errors", "sm.lifecycle", "sm.mail", "sm.manager", "sm.models",
        "sm.policy", "sm.recall", "sm.store", "sm.text", "sm.wording",
    },
    "sm.excerpt": {"sm.asking", "sm.mail", "sm.providers.base"},
    "sm.dialogs": {
        "sm.asking", "sm.config", "sm.errors", "sm.evidence", "sm.excerpt", "sm.mail", "sm.manager", "sm.models",
        "sm.persisting", "sm.providers.base", "sm.rules", "sm.store", "sm.terminals.base", "sm.text", "sm.views",
        "sm.wording",
    },
    "sm.dialog_routes": {"sm.dialogs", "sm.errors", "sm.handling", "sm.intake", "sm.mail", "sm.wire"},
    "sm.requests": {
        "sm.asking", "sm.dialogs", "sm.errors", "sm.mail", "sm.manager", "sm.models", "sm.policy", "sm.recall",
        "sm.reports", "sm.store", "sm.text", "sm.views", "sm.wording",
    },
    "sm.messages": {
        "sm.asking", "sm.dialogs", "sm.errors", "sm.family", "sm.lifecycle", "sm.mail", "sm.manager", "sm.models",
        "sm.policy", "sm.providers.base", "sm.recall", "sm.requests", "sm.store", "sm.text", "sm.views", "sm.wording",
    },
    "sm.workspaces": {
        "sm.config", "sm.errors", "sm.manager", "sm.models", "sm.policy", "sm.recall", "sm.starts", "sm.store",
        "sm.text", "sm.trust",
    },
    "sm.workspace_routes": {"sm.handling", "sm.intake", "sm.lifecycle", "sm.models", "sm.views"},
    "sm.records": {
        "sm.endings", "sm.errors", "sm.lifecycle", "sm.manager", "sm.models", "sm.policy", "sm.recall",
        "sm.store", "sm.wording", "sm.worktrees",
    },
    "sm.revival": {
        "sm", "sm.errors", "sm.family", "sm.hostos", "sm.lifecycle", "sm.manager", "sm.models", "sm.policy",
        "sm.recall", "sm.sandboxes.base", "sm.spawning", "sm.starts", "sm.store", "sm.terminals.base", "sm.tokens",
        "sm.wording",
    },
    "sm.interrupts": {
        "sm", "sm.asking", "sm.endings", "sm.errors", "sm.evidence", "sm.lifecycle", "sm.mail", "sm.manager",
        "sm.models", "sm.policy", "sm.recall", "sm.revival", "sm.store",
    },
    # It looks at processes, because the sessions that it adopts were started by nobody here.
    "sm.adoptions": {
        "sm", "sm.errors", "sm.hostos", "sm.manager", "sm.models", "sm.policy", "sm.providers.base", "sm.recall",
        "sm.spawning", "sm.spool", "sm.starts", "sm.store", "sm.terminals.base", "sm.text",
    },
    "sm.left_behind": {"sm", "sm.hostos", "sm.models"},
    # Planning a spawn: each part decides, and writes nothing.
    "sm.whereabouts": {"sm.config", "sm.errors", "sm.models", "sm.text", "sm.worktrees"},
    "sm.environments": {"sm.config", "sm.models", "sm.places"},
    "sm.spawning": {
        "sm.agent_types", "sm.capabilities", "sm.config", "sm.environments", "sm.errors", "sm.models", "sm.naming",
        "sm.places", "sm.policy", "sm.providers.base", "sm.text", "sm.tokens", "sm.trust", "sm.whereabouts",
        "sm.worktrees",
    },
    "sm.waiting": {
        "sm.lifecycle", "sm.manager", "sm.models", "sm.notices", "sm.persisting", "sm.store",
    },
    "sm.mailroom": {
        "sm.asking", "sm.errors", "sm.kills", "sm.lifecycle", "sm.mail", "sm.manager", "sm.messages", "sm.models",
        "sm.notices", "sm.requests", "sm.store", "sm.views", "sm.waiting", "sm.wording",
    },
    # What it writes, not what it is about: whoever decides hands it words.
    "sm.audit": {"sm.text"},
    # What is said of a session in a few sentences: it runs a program, and knows nothing but what it is handed.
    "sm.summary": {"sm.errors", "sm.models", "sm.text"},
    # Agents with turns: what they consume, and what they do. Both know them by the provider's Reader alone.
    "sm.transcripts": {"sm.usage"},
    "sm.measuring": {
        "sm.config", "sm.evidence", "sm.models", "sm.persisting", "sm.providers.base", "sm.store",
        "sm.transcripts", "sm.usage",
    },
    "sm.listening": {"sm.hostos"},
    "sm.observed": {"sm.evidence", "sm.models", "sm.providers.base"},
    "sm.news": {"sm.evidence", "sm.observed", "sm.providers.base"},
    "sm.concluding": {
        "sm.evidence", "sm.lifecycle", "sm.manager", "sm.measuring", "sm.models", "sm.persisting", "sm.store",
        "sm.views",
    },
    "sm.reading": {
        "sm.concluding", "sm.errors", "sm.evidence", "sm.listening", "sm.measuring", "sm.news", "sm.observed",
        "sm.providers.base", "sm.store", "sm.terminals.base", "sm.views",
    },
    "sm.observer": {
        "sm.concluding", "sm.errors", "sm.evidence", "sm.lifecycle", "sm.listening", "sm.manager", "sm.measuring",
        "sm.models", "sm.news", "sm.observed", "sm.providers.base", "sm.reading", "sm.store", "sm.terminals.base",
        "sm.views",
    },
    # What is typed into terminals: into an input box by what its terminal shows, and nothing else is known of it.
    "sm.delivery": {"sm.providers.base"},
    "sm.composing": {"sm.delivery", "sm.errors", "sm.providers.base"},
    "sm.typed": {
        "sm.delivery", "sm.hostos", "sm.mail", "sm.messages", "sm.models", "sm.providers.base", "sm.receipts",
        "sm.store",
    },
    "sm.typist": {
        "sm.composing", "sm.delivery", "sm.errors", "sm.lifecycle", "sm.mail", "sm.manager", "sm.messages",
        "sm.models", "sm.persisting", "sm.providers.base", "sm.receipts", "sm.store", "sm.terminals.base", "sm.text",
        "sm.typed", "sm.wording",
    },
    # What agents say that they have got, and who hears what else they say.
    "sm.receipts": {
        "sm.errors", "sm.evidence", "sm.mail", "sm.manager", "sm.messages", "sm.models", "sm.persisting",
        "sm.providers.base", "sm.store", "sm.text", "sm.views", "sm.wording",
    },
    "sm.telling": {"sm.composing", "sm.dialogs", "sm.evidence", "sm.providers.base", "sm.receipts"},
    "sm.look_routes": {
        "sm.agent_types", "sm.errors", "sm.evidence", "sm.handling", "sm.intake", "sm.models", "sm.policy",
        "sm.progress", "sm.summary", "sm.text", "sm.usage", "sm.views",
    },
    # The HTTP side: from a body to a use case, and back to JSON.
    "sm.handling": {
        "sm.adoptions", "sm.audit", "sm.config", "sm.dialogs", "sm.errors", "sm.identity", "sm.interrupts", "sm.kills",
        "sm.mailroom", "sm.manager", "sm.measuring", "sm.messages", "sm.models", "sm.observer", "sm.policy",
        "sm.records", "sm.reports", "sm.requests", "sm.revival", "sm.starts", "sm.store", "sm.summary",
        "sm.terminals.base", "sm.waiting", "sm.watcher", "sm.workspaces",
    },
    "sm.identity": {"sm.errors", "sm.hostos", "sm.lifecycle", "sm.models", "sm.terminals.base", "sm.tokens"},
    # Sockets: what comes in, as whom, within which bounds. None of them knows a use case.
    "sm.connections": {"sm.errors", "sm.handling", "sm.intake", "sm.places", "sm.wire"},
    "sm.edge": {
        "sm.audit", "sm.connections", "sm.errors", "sm.handling", "sm.hostos", "sm.identity", "sm.intake",
        "sm.models", "sm.wire",
    },
    "sm.agent_sockets": {
        "sm.connections", "sm.edge", "sm.errors", "sm.identity", "sm.models", "sm.places", "sm.store",
    },
    "sm.agent_routes": {"sm.handling", "sm.intake", "sm.manager", "sm.models", "sm.revival"},
    "sm.mail_routes": {
        "sm.errors", "sm.handling", "sm.intake", "sm.lifecycle", "sm.mail", "sm.messages", "sm.models", "sm.policy",
        "sm.requests", "sm.views", "sm.waiting", "sm.wording",
    },
    "sm.store.": {"sm.errors", "sm.lifecycle", "sm.mail", "sm.models", "sm.store.", "sm.usage"},
    "sm.notifiers.": {"sm.config", "sm.errors", "sm.notices", "sm.notifiers."},
    "sm.notifiers.command": {"sm.notifiers.base"},
    "sm.notifiers.webhook": {"sm.config", "sm.notifiers.base"},
    "sm.terminals.": {"sm.errors", "sm.models", "sm.terminals."},
    # The parts of `tmux` know none of each other but the finder.
    "sm.terminals.finder": {
        "sm.errors", "sm.terminals.base", "sm.terminals.panes", "sm.terminals.tmux_server",
    },
    "sm.terminals.adoption": {
        "sm.errors", "sm.terminals.base", "sm.terminals.control", "sm.terminals.finder", "sm.terminals.panes",
        "sm.terminals.tmux_server",
    },
    "sm.terminals.keyboard": {
        "sm.errors", "sm.terminals.base", "sm.terminals.control", "sm.terminals.finder", "sm.terminals.panes",
        "sm.terminals.tmux_server",
    },
    "sm.terminals.opening": {
        "sm.errors", "sm.terminals.base", "sm.terminals.control", "sm.terminals.finder", "sm.terminals.panes",
        "sm.terminals.tmux_server",
    },
    "sm.terminals.subscription": {"sm.terminals.tmux_server"},
    "sm.sandboxes.": {"sm", "sm.errors", "sm.hostos", "sm.models", "sm.places", "sm.sandboxes."},
    "sm.providers.": {
        "sm.config.", "sm.errors", "sm.evidence", "sm.mail", "sm.models", "sm.providers.", "sm.text", "sm.usage",
        "sm.wording",
    },
    "sm.hostos": {"sm.errors", "sm.models"},
    "sm.config.": {"sm.config.", "sm.errors", "sm.evidence", "sm.models", "sm.rules", "sm.trust"},
}  # fmt: skip


def imports(path: Path) -> set[str]:
    """Everything a module imports, also inside functions, but for what only type checkers see."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides its layer"
            assert node.module is not None
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found


IMPORTS = {name: imports(path) for name, path in MODULES.items()}


def covered(name: str, allowed: set[str]) -> bool:
    return any(name == a or (a.endswith(".") and f"{name}.".startswith(a)) for a in allowed)


@pytest.mark.parametrize("name", sorted(PURE))
def test_a_pure_module_touches_nothing_outside(name: str) -> None:
    used = {i.partition(".")[0] for i in IMPORTS[name] if not i.startswith("sm")}
    assert not used & (IMPURE_STANDARD | OUTSIDE)
    assert {i for i in IMPORTS[name] if i.startswith("sm")} <= PURE


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_imports_what_its_layer_may(name: str) -> None:
    for who, allowed in MAY_IMPORT.items():
        if covered(name, {who}):
            assert not {i for i in IMPORTS[name] if i.split(".")[0] == "sm" and not covered(i, allowed)}


def test_one_module_knows_each_outside_thing() -> None:
    def importers(package: str) -> set[str]:
        return {name for name, used in IMPORTS.items() if any(i.split(".")[0] == package for i in used)}

    assert {name.rpartition(".")[0] for name in importers("aiosqlite")} == {"sm.store"}
    assert importers("ctypes") == {"sm.hostos"}
    # sqlite3: the types of what aiosqlite's thread is handed (ADR 4).
    assert {name.rpartition(".")[0] for name in importers("sqlite3")} == {"sm.store"}
    assert importers("aiohttp") == {
        "sm.agent_routes", "sm.agent_sockets", "sm.connections", "sm.daemon", "sm.dialog_routes", "sm.edge",
        "sm.handling", "sm.intake",
        "sm.look_routes", "sm.mail_routes",
        "sm.notifiers.webhook", "sm.server", "sm.workspace_routes",
    }  # fmt: skip
    for package in ("yaml", "pydantic"):
        assert {name.rpartition(".")[0] for name in importers(package)} <= {"sm.config", "sm.cli"}
    assert {name for name in importers("click") if not name.startswith("sm.cli")} <= {"sm.daemon"}
    assert {name for name, used in IMPORTS.items() if "sm.terminals.tmux" in used} == {"sm.daemon"}


def test_nothing_imports_the_daemon_but_its_own_command() -> None:
    assert {name for name, used in IMPORTS.items() if "sm.daemon" in used} <= {"sm.cli.daemon"}


def test_only_hostos_reads_proc() -> None:
    def literals(path: Path) -> list[str]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = [
            n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        ]
        return [s for s in strings if s.startswith("/proc/")]

    assert {name for name, path in MODULES.items() if literals(path)} == {"sm.hostos"}


def test_the_command_starts_without_heavy_modules() -> None:
    import subprocess
    import sys

    code = (
        "import sys; import sm.cli, sm.client, sm.cli.children, sm.cli.render\n"
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
