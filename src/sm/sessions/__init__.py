"""Use cases of sessions: spawn, kill, interrupt, restore, adopt, archive, report, wait, and workspaces."""
