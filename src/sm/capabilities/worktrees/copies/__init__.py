"""Copies of directories without version control, which agents get in place of git worktrees."""
