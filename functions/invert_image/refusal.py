"""Says why a file is refused: what it is instead of an image, or that it is cut off or damaged."""

from __future__ import annotations

import re
import struct

# By how a file begins, the special before the general.
_KINDS = {
    rb"GIF8[79]a": "a GIF image",
    rb"\xff\xd8\xff": "a JPEG image",
    rb"\x89PNG\r\n\x1a\n": "a PNG image",
    rb"RIFF....WEBP": "a WebP image",
    rb"\Z": "an empty file",
    rb"%PDF-": "a PDF document",
    rb"BM": "a BMP image",
    # With the tag DNGVersion: https://helpx.adobe.com/camera-raw/digital-negative.html
    rb"II\*\0.*\x12\xc6\x01\0|MM\0\*.*\xc6\x12\0\x01": "a camera's raw file (DNG)",
    rb"II[*+]\0|MM\0[*+]": "a TIFF image, or a camera's raw file",
    # The brands of https://aomediacodec.github.io/av1-avif/ and of ISO/IEC 23008-12
    rb"....ftyp.{,60}avi[fs]": "an AVIF image",
    rb"....ftyp.{,60}(hei[cmsx]|hev[cmsx]|mif1|msf1)": "a HEIC image",
    rb"....ftyp": "a video",
    rb"\0\0\0\x0cJXL |\xff\x0a": "a JPEG XL image",
    rb"[^<]{,9}<((\?xml|!--|!DOCTYPE svg).{,2000}<)?svg": "an SVG image",
    rb"[^\0-\x08\x0e-\x1f]+\Z": "text",
}


def reason_for(content: bytes, error: Exception) -> str:
    """Give a sentence that says what a file is that could not be read, and not what is in it.

    Parameters
    ----------
    content
        The bytes of the file.
    error
        What its reader raised. Its message could quote the bytes.
    """
    found = (kind for start, kind in _KINDS.items() if re.match(start, content, re.DOTALL))
    match next(found, "of an unknown format"):
        case "a GIF image" | "a PNG image" as kind:  # a walk through its parts went beyond its end
            is_cut_off = isinstance(error, IndexError | struct.error)
        case "a JPEG image" as kind:  # no end of the image after the last start of a scan
            is_cut_off = content.rfind(b"\xff\xd9") <= content.rfind(b"\xff\xda")
        case "a WebP image" as kind:
            (length,) = struct.unpack_from("<I", content, 4)
            is_cut_off = len(content) < 8 + length
        case kind:
            return f"The file is {kind}. Only GIF, JPEG, PNG and WebP images can be inverted."
    if is_cut_off:
        return f"The file is {kind} that is cut off: its end is missing."
    return f"The file is {kind} that is damaged, or of a rare kind ({type(error).__name__})."
