"""Puts the fence's stamp into an image file, at a place that its format has for such data.

Strict readers such as pngcheck, optipng and webpinfo object to bytes behind the end.
"""

import struct
import zlib

# WebP may have chunks of our own (RFC 9649, 2.7), but webpinfo warns of unknown ones.
XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/">'
    b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/></x:xmpmeta>'
)


def stamp_image(content: bytes, stamp: bytes) -> bytes:
    """Put a stamp into a file that `invert` has written."""
    match content[:1]:
        case b"\xff":  # JPEG: a comment after the first segment, JFIF's
            comment = b"\xff\xfe" + struct.pack(">H", 2 + len(stamp)) + stamp
            return content[:20] + comment + content[20:]
        case b"\x89":  # PNG: a text after the header
            text = b"tEXtComment\0" + stamp
            chunk = struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text))
            return content[:33] + chunk + content[33:]
        case b"G":  # GIF: a comment at the end, which only the version 89a has
            parts = [stamp[start : start + 255] for start in range(0, len(stamp), 255)]
            blocks = b"".join(bytes([len(part)]) + part for part in parts)
            return b"GIF89a" + content[6:-1] + b"!\xfe" + blocks + b"\0;"
        case _:  # WebP: a processing instruction behind `XMP`, in the last chunk
            xmp = XMP + b"<?inorder " + stamp + b"?>"
            xmp += b" " * (len(xmp) % 2)
            chunks = content[8 : -len(XMP) - 4] + struct.pack("<I", len(xmp)) + xmp
            return b"RIFF" + struct.pack("<I", len(chunks)) + chunks
