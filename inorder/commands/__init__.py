"""The command ``inorder``: all that reads options, asks, prints and exits, and nothing else."""

from inorder import PROJECT

OUT = PROJECT / "out"
