"""The files of an archive. Every function blocks."""
