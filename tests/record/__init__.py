"""Records the real Claude Code in a catalogue of scenes, and compares the recordings of its versions."""
