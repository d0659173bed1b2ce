"""Puts the fence's stamp into an image file, at a place that its format has for such data."""

from __future__ import annotations

import struct

from invert_image.metadata import png_chunk

PNG_HEADER_END = 33  # of the chunk IHDR, which is the first one
# A chunk of our own would be allowed in a WebP (RFC 9649, 2.7), but webpinfo warns of unknown ones.
EMPTY_XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/">'
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/></x:xmpmeta>'
)


def stamp_image(content: bytes, stamp: bytes) -> bytes:
    """Put a stamp into a file that `invert` has made, so that strict readers find it valid.

    To bytes behind the end, pngcheck, optipng and webpinfo object.
    """
    match content[:1]:
        case b"G":  # a comment extension, which only the version 89a of GIF has
            parts = [stamp[start : start + 255] for start in range(0, len(stamp), 255)]
            blocks = b"".join(bytes([len(part)]) + part for part in parts)
            return b"GIF89a" + content[6:-1] + b"!\xfe" + blocks + b"\0;"
        case b"\x89":
            text = png_chunk(b"tEXt", b"Comment\0" + stamp)
            return content[:PNG_HEADER_END] + text + content[PNG_HEADER_END:]
        case b"R":
            return _with_longer_xmp(content, b"<?inorder " + stamp + b"?>")
        case _:  # JPEG: a comment, behind JFIF and EXIF, which are APP0 and APP1
            end = 2
            while content[end : end + 2] in {b"\xff\xe0", b"\xff\xe1"}:
                end += 2 + int.from_bytes(content[end + 2 : end + 4], "big")
            comment = b"\xff\xfe" + struct.pack(">H", 2 + len(stamp)) + stamp
            return content[:end] + comment + content[end:]


def _with_longer_xmp(content: bytes, addition: bytes) -> bytes:
    """Add to the XMP packet of a WebP, which is the last chunk."""
    position = end = 12
    while end < len(content):
        position = end
        (length,) = struct.unpack_from("<I", content, position + 4)
        end += 8 + length + length % 2
    xmp = content[position + 8 : position + 8 + length] + addition
    chunks = content[8:position] + b"XMP " + struct.pack("<I", len(xmp)) + xmp
    chunks += bytes(len(chunks) % 2)
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks
