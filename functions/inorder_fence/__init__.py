"""What a work function needs: the fence, and the event that it gets.

`records` and `stuck` are for the project's own functions and its tool.
"""

from inorder_fence.fenced_output import S3_CONFIG, Fence, Result
from inorder_fence.object_event import ObjectEvent, Rejection, named_version

__version__ = "0.3.0"  # of the whole project

__all__ = [
    "S3_CONFIG",
    "Fence",
    "ObjectEvent",
    "Rejection",
    "Result",
    "named_version",
]
