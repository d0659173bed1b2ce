"""The story of one object: what became of each of its events, and why. No service is called here.

`tell` gets what could be read, and gives facts with a sentence for each. It claims nothing that was
not read: what the sources cannot tell is in `Story.unknown`.
"""

from inorder.story.parts import Story
from inorder.story.telling import tell

__all__ = ["Story", "tell"]
