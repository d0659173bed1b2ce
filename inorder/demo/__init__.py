"""The demonstration: the same events, in disorder, without coordination and with it."""
