"""Serves live views to browsers: a process of its own, and a client of the daemon.

Modules are imported one by one: commands that only list logins load no web server.
"""
