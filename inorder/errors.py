"""The error of all local tooling."""


class Failure(Exception):
    """What was asked for cannot be done. The text says why; a command prints it, and fails."""
