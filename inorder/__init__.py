"""Local tooling of the project: a local AWS, the demonstration, and the ASL checks."""

__version__ = "0.1.0"
