"""Defines the commands of `sm`, one module each, imported when the command is called."""
