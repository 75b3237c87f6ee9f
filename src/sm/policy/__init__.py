"""Pure decisions: access, trust, limits, permission rules."""
