"""The one way in which a test changes a text: a change that changes nothing is an error."""


def changed(text: str, old: str, new: str) -> str:
    """Put one text in the place of another one, wherever that is.

    Raises
    ------
    ValueError
        The text does not have it, or the two are equal.
    """
    if old not in text or old == new:
        raise ValueError(f"there is nothing to change: {old}")
    return text.replace(old, new)
