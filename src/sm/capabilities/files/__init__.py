"""Files of the operator: uploads them, and gives them to sessions with messages and tasks."""
