"""Everything in a project that claude executes or applies without a question is listed for `sm trust`."""

import json
from pathlib import Path

import pytest

from sm.providers.claude.project import project_effects


def write(directory: Path, path: str, content: object) -> None:
    file = directory / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def effects(directory: Path) -> list[str]:
    return [effect.replace(f"{directory}/", "", 1) for effect in project_effects(str(directory))]


def test_project_without_settings_has_no_effects(tmp_path: Path) -> None:
    write(tmp_path, "CLAUDE.md", "Be brief.")
    write(
        tmp_path, ".claude/settings.json", {"permissions": {"deny": ["Bash(rm *)"], "allow": []}, "hooks": {}}
    )
    write(tmp_path, ".claude/skills/review/SKILL.md", "---\nname: review\n---\nRead it.")
    write(tmp_path, ".git/config", "[core]\n\tbare = false\n\tfsmonitor = true\n")
    assert effects(tmp_path) == []


def test_project_effects_name_every_program_and_permission(tmp_path: Path) -> None:
    hooks = {
        "SessionStart": [
            {"hooks": [{"type": "command", "command": "sh x"}, {"type": "command", "command": "y"}]}
        ]
    }
    permissions = {
        "allow": ["Bash(rm *)"],
        "additionalDirectories": ["/etc"],
        "defaultMode": "bypassPermissions",
    }
    write(
        tmp_path,
        ".claude/settings.json",
        {"hooks": hooks, "permissions": permissions, "env": {"BASH_ENV": "x.sh"}, "disableAllHooks": True},
    )
    helpers = {"apiKeyHelper": "key.sh", "statusLine": {"type": "command", "command": "line.sh"}}
    more = {"enableAllProjectMcpServers": True, "enabledPlugins": {"p@m": True}}
    write(tmp_path, ".claude/settings.local.json", helpers | more)
    write(tmp_path, ".mcp.json", {"mcpServers": {"files": {"command": "x"}}})
    write(tmp_path, ".claude/scheduled_tasks.json", {"tasks": [{"cron": "* * * * *", "prompt": "Push it."}]})
    write(tmp_path, ".claude/skills/a/SKILL.md", "---\nname: a\n---\nNow: !`date`")
    write(tmp_path, ".claude/commands/sub/b.md", "---\nallowed-tools: Bash\n---\n")
    write(tmp_path, ".claude/agents/c.md", "---\nhooks:\n  Stop: []\n---\n")
    write(tmp_path, ".git/config", "[core]\n\tfsmonitor = ./evil.sh --x\n")
    assert effects(tmp_path) == [
        ".claude/settings.json: runs at SessionStart: sh x; y",
        ".claude/settings.json: sets BASH_ENV=x.sh",
        ".claude/settings.json: allows without a question Bash(rm *)",
        ".claude/settings.json: adds the directories /etc",
        ".claude/settings.json: sets the permission mode bypassPermissions",
        ".claude/settings.json: turns off all hooks, so sm cannot answer permissions",
        ".claude/settings.local.json: apiKeyHelper runs key.sh",
        ".claude/settings.local.json: statusLine runs line.sh",
        ".claude/settings.local.json: approves MCP servers of the project",
        ".claude/settings.local.json: loads plugins: p@m",
        '.mcp.json: MCP server files: {"command":"x"}',
        ".claude/scheduled_tasks.json: sends at fixed times: Push it.",
        ".claude/skills/a/SKILL.md: brings commands or permissions of its own",
        ".claude/commands/sub/b.md: brings commands or permissions of its own",
        ".claude/agents/c.md: brings commands or permissions of its own",
        ".git/config: git runs ./evil.sh --x",
    ]


@pytest.mark.parametrize("content", ["{", "x" * 2_000_000, "\udcff"])
def test_settings_that_cannot_be_read_are_an_effect(tmp_path: Path, content: str) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    (effect,) = effects(tmp_path)
    assert effect.startswith(".claude/settings.json: cannot be read (")


@pytest.mark.parametrize(
    "content",
    [[], {"hooks": []}, {"hooks": {"Stop": 7}, "permissions": 1, "env": []}, {"permissions": {"allow": {}}}],
)
def test_settings_of_another_shape_are_no_error(tmp_path: Path, content: object) -> None:
    write(tmp_path, ".claude/settings.json", content)
    write(tmp_path, ".mcp.json", {"mcpServers": []})
    write(tmp_path, ".claude/scheduled_tasks.json", {"tasks": ["x", 1]})
    assert [effect for effect in effects(tmp_path) if "fixed times" not in effect] in (
        [],
        [".claude/settings.json: runs at Stop: "],
    )


def test_project_with_very_many_files_is_read_within_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sm.providers.claude.project._FILES_MAX", 2)
    for name in "abc":
        write(tmp_path, f".claude/skills/{name}/SKILL.md", "x")
    assert effects(tmp_path) == [".claude/skills: more than 2 files"]
