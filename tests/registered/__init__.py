"""Packages as a registry names them: a made-up agent CLI, and a made-up engine that runs everything on this machine.

No module of `sm` knows them. A test adds one line to each registry.
"""
