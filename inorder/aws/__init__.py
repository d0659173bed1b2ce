"""A deployed stack: its executions, its parked events and its stuck keys."""
