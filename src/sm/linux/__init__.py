"""Linux: processes, sockets, changed files, bounded reads of files."""
