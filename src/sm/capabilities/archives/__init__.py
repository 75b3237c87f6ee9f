"""Archives: what an ended session did, in a directory of its own, until it is too old."""
