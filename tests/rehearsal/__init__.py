"""A rehearsal of releases of Claude Code that change what `sm` relies on."""
