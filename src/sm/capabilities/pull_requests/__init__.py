"""Pull requests of the branches of sessions: opens them with gh, and follows their checks and reviews."""
