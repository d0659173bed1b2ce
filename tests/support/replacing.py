"""The one way in which a test changes a text: a change that changes nothing is an error."""

from typing import AnyStr


def replaced(text: AnyStr, old: AnyStr, new: AnyStr) -> AnyStr:
    """Put one text in the place of another one, wherever that is.

    Raises
    ------
    ValueError
        The text does not have it, or the two are equal.
    """
    if old not in text or old == new:
        raise ValueError(f"there is nothing to change: {old!r}")
    return text.replace(old, new)
