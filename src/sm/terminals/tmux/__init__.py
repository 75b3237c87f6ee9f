"""The implementation of terminals in tmux."""
