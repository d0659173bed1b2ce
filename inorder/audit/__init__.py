"""The audit: whether every output is right, and the events that repair what is not."""
