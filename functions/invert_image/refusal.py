"""Says what a file is that cannot be inverted."""

import re

_UNREADABLE = "that is cut off or damaged, or of a rare kind"
# By how a file begins, the special before the general.
_KINDS = {
    rb"GIF8[79]a": f"a GIF image {_UNREADABLE}",
    rb"\xff\xd8\xff": f"a JPEG image {_UNREADABLE}",
    rb"\x89PNG\r\n\x1a\n": f"a PNG image {_UNREADABLE}",
    rb"RIFF....WEBP": f"a WebP image {_UNREADABLE}",
    rb"\Z": "an empty file",
    rb"%PDF-": "a PDF document",
    rb"BM": "a BMP image",
    # Canon, Fujifilm, Olympus, Panasonic, Sigma. Those of other makers are TIFF files.
    rb"....ftypcrx|II\x1a\0|FUJIFILMCCD-RAW|IIR[OS]|MMOR|IIU\0|FOVb": "a camera's raw file",
    rb"II[*+]\0|MM\0[*+]": "a TIFF image, or a camera's raw file",
    # The brands of https://aomediacodec.github.io/av1-avif/ and of ISO/IEC 23008-12
    rb"....ftyp.{,60}avi[fs]": "an AVIF image",
    rb"....ftyp.{,60}(hei[cmsx]|hev[cmsx]|mif1|msf1)": "a HEIC image",
    rb"....ftyp": "a video",
    rb"\0\0\0\x0cJXL |\xff\x0a": "a JPEG XL image",
    # In a web page, other tags are before an image's.
    rb"(\xef\xbb\xbf)?(?>\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE svg[^[>]*(\[.*?]\s*)?>)*+<svg\b": (
        "an SVG image"
    ),
    rb"[^\0-\x08\x0e-\x1f]+\Z": "text",
}


def reason_for(content: bytes) -> str:
    """Give a sentence that says what a file is, and quotes nothing of it."""
    kinds = (kind for start, kind in _KINDS.items() if re.match(start, content, re.DOTALL))
    kind = next(kinds, "of an unknown format")
    return f"The file is {kind}. Whole GIF, JPEG, PNG and WebP images can be inverted."
