"""Terminals of agents, in tmux."""
