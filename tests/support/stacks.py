"""A deployed stack as the commands describe it, with names that stand for its resources."""

from inorder.aws.stack import Stack


def stack_with(buckets: tuple[str, str] = ("in", "out"), /, **parameters: str) -> Stack:
    """Describe a stack with these buckets and parameters."""
    names = ("s", *buckets, "keys", "arn", "parked", "retries", "f", "log")
    return Stack(*names, {"Policy": "latest-wins", **parameters})
