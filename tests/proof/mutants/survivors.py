"""The mutants that no test kills, each with the reason."""
# ruff: noqa: E501 - a name is one line

from tests.policies.tables import TABLES

_INSTANT = "it makes no difference on which side the one instant counts"
_CHOSEN = "a number that was chosen: no promise depends on it"
_SHORTER = "a shorter wait for an answer is one more fault, which is retried"
_LONGER = "the function's timeout has room for a longer wait"
_EQUAL = "the lengths are equal"
_SAME = "it computes the same"
_GIVEN = "the function gives it; the default is for the command and the tests"
_PILLOW = "Pillow does the same without it"
_ALWAYS = "it holds for every image that Pillow reads"
_EVERY = "Pillow counts the frames of each format that is read; the default is for another one"
_NAMED = "where an event has a version, S3 names the version of each object"
_UNREAD = "no caller reads it"
_PATH = "the process is started by the file's path, and gets no mutant"
# Of the code of the functions.
_CODE: dict[str, dict[str, str]] = {
    "heal_keys": {
        "app.py : 1000 -> 500": _CHOSEN,
        "app.py : 1000 -> 2000": _CHOSEN,
        "app.py _reads: no AttributeNames=['QueueArn']": "no attribute is used",
    },
    "retry_events": {
        "retries.py : LONGEST_SECONDS / FIRST_SECONDS -> LONGEST_SECONDS * FIRST_SECONDS": _SAME,
        "retries.py Fault._decide: now < due -> now <= due": _INSTANT,
        "retries.py Message: 1 -> 0": _GIVEN,
        "retries.py Message: 1 -> 2": _GIVEN,
        "retries.py _with_reason: 0 -> -1": _SAME,
        "app.py : 2 -> 1 (2)": _SHORTER,
        "app.py : 2 -> 3 (2)": _LONGER,
        "app.py : 3 -> 2": _SHORTER,
        "app.py : 3 -> 4": _LONGER,
        "app.py _iso: no timespec='seconds'": "each reader takes a fraction of a second, too",
        "app.py _handle_batch: True -> False": _EQUAL,
        "app.py _handle_batch: no strict=True": _EQUAL,
        "retries.py : 200 -> 400": _CHOSEN,
        "retries.py : 200 -> 100": _CHOSEN,
    },
    "invert_image": {
        "app.py : 9 -> 8": _CHOSEN,
        "inversion.py : no Image.MAX_IMAGE_PIXELS = None": "the run without a mutant has set it",
        "inversion.py : 2000 -> 4000": _CHOSEN,
        "inversion.py : 2000 -> 1000": _CHOSEN,
        "inversion.py invert: no save_all=len(frames) > 1": _PILLOW,
        "inversion.py _invert_gif: no formats=['GIF']": _PILLOW,
        "inversion.py _decode: no source.load()": _PILLOW,
        "inversion.py _decode: 1 -> 0 (2)": _EVERY,
        "inversion.py _decode: 1 -> 2 (2)": _EVERY,
        "inversion.py _decode: 0 -> 1 (3)": _ALWAYS,
        "inversion.py _decode: 0 -> -1 (3)": _ALWAYS,
        "inversion.py _inverted: image.getpalette() or () -> image.getpalette()": _ALWAYS,
        "inversion.py _inverted_transparency: no case _: return None": _SAME,
        "inversion.py _inverted_transparency: no return None": _SAME,
        "inversion.py _encoder_options: content[24] in {2, 4} -> True": _PILLOW,
        "inversion.py _encoder_options: source.format == 'WEBP' -> True": _ALWAYS,
        "inversion.py _encoder_options: lossless is not None and lossless[0] ... -> lossless[0] == b'VP8L'": _ALWAYS,
        "inversion.py _encoder_options: no 'quality'": _CHOSEN,
        "inversion.py _encoder_options: 50 -> 100": _CHOSEN,
        "inversion.py _encoder_options: 50 -> 25": _CHOSEN,
    },
    "inorder_fence": {
        "stuck.py : False -> True": _GIVEN,
        "stuck.py oldest: now - entry[0] >= DEAD_AFTER -> now - entry[0] > DEAD_AFTER": _INSTANT,
        "stuck.py read: now - at < RETRY_LASTS -> now - at <= RETRY_LASTS": _INSTANT,
        "stuck.py : 25 -> 50": _CHOSEN,
        "stuck.py : 50 -> 100": _CHOSEN,
        "stuck.py read: (age := (now - _time(record))) < DEAD... -> (age := (now - _time(record))) <= DEA...": _INSTANT,
        "object_event.py ObjectEvent: False -> True": _GIVEN,
        "fenced_output.py : 2 -> 1": _SHORTER,
        "fenced_output.py : 4 -> 3": _SHORTER,
        "fenced_output.py Fence.find_source: NULL_VERSION if event.version_id else... -> None": _NAMED,
        "fenced_output.py Fence.find_source: event.version_id -> False": _NAMED,
        "fenced_output.py Fence.find_source: no is_deletion=False": _UNREAD,
        "fenced_output.py Fence.find_source: False -> True": _UNREAD,
        "fenced_output.py : 3 -> 2": "fewer attempts are more faults, which are retried",
        "fenced_output.py Fence._delete_older: output.etag is None or output.order(e... -> output.order(event) in {Order.UNKNOWN...": _SAME,
    },
}


def reasons(name: str) -> dict[str, str]:
    """Give the mutants of a policy or function that survive, and why."""
    return dict(TABLES[name].survivors) if name in TABLES else _CODE.get(name, {})
