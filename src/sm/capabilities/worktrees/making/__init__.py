"""Plans and makes worktrees in a short process of its own, and removes what is left of one."""
