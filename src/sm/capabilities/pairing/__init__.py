"""Pairing: users of chat networks whom the operator lets use this instance."""
