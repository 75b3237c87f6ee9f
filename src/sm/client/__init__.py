"""Sends requests to the daemon over its socket. Modules are imported one by one: hooks load only `connection`."""
