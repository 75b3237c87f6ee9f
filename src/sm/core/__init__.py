"""Pure data and words of the domain."""
