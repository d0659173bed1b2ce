"""What is done with an object's content. It must be safe to repeat."""

from dataclasses import dataclass

from inorder_fence import Rejection


@dataclass(frozen=True)
class Text:
    """An output: its content, and its media type."""

    content: bytes
    content_type: str = "text/plain; charset=utf-8"


def work(content: bytes) -> Text:
    """Write a text in capitals."""
    try:
        return Text(content.decode().upper().encode())
    except UnicodeDecodeError as error:
        raise Rejection(f"The object is no text: {error}") from error
