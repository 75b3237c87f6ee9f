"""Random sequences of work in worktrees, commands of `sm` and SIGKILL: no commit and no change is lost."""
