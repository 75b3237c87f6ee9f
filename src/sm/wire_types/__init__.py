"""The JSON objects in the answers of the daemon, as dataclasses in the standard library alone. Pure.

Each module has the objects of one part of the API. The docstring below a field describes it in docs/openapi.json.
"""
