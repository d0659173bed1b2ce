"""Keeps of an image's metadata what is true of its inverse, as README.md lists it."""

from __future__ import annotations

import re
import struct
import zlib
from contextlib import suppress

from PIL.JpegImagePlugin import JpegImageFile

_PICTURE = re.compile(rb"\xff\xd8\xff.*?(?:\xff\xd9|\Z)", re.DOTALL)  # a JPEG in other data

# Namespaces of XMP for what shows the image before, or that is no longer there: thumbnails, the
# other parts of a long XMP packet, the parts of a camera's composite, gain maps; and signatures.
# "HasExtendedXMP": Adobe's XMP Specification, part 3, 1.1.3.1. Google's namespaces:
# https://developer.android.com/media/platform/hdr-image-format, but a panorama's sizes stay true.
_OUTDATED_XMP = re.compile(
    rb"xap/1\.0/g/img/|HasExtendedXMP|ns\.google\.com/photos/(?!1\.0/panorama/)"
    rb"|hdr-gain-map|HDRGainMap|jumbf"
)

# https://www.w3.org/TR/png-3/#11Ancillary-chunks
_OPAQUE_TEXTS = (b"Raw profile type ", b"XML:com.adobe.xmp\0\1")  # in hexadecimal, or compressed
_PNG_KEPT = {b"cHRM", b"cICP", b"eXIf", b"gAMA", b"iCCP", b"pHYs", b"sRGB"}
_PNG_KEPT |= {b"iTXt", b"tEXt", b"zTXt"}

# Of Photoshop's image resources: IPTC's data and their digest, whether the image has a copyright,
# and its URL. https://www.adobe.com/devnet-apps/photoshop/fileformatashtml/#50577409_38034
_RESOURCES_KEPT = (0x0404, 0x0425, 0x040A, 0x040B)


def exif_without_pictures(exif: bytes) -> bytes:
    """Remove the thumbnail from EXIF data, and blank all other pictures in them.

    All else stays at its place, because a camera's own notes may contain offsets. The thumbnail is
    in the second directory, to which the end of the first one points: EXIF 3.0, 4.5.
    """
    edited = bytearray(exif)
    start = 6 if exif.startswith(b"Exif\0\0") else 0
    with suppress(KeyError, struct.error):  # damaged: then no reader finds a thumbnail
        order = {b"II": "<", b"MM": ">"}[exif[start : start + 2]]
        (offset,) = struct.unpack_from(f"{order}I", exif, start + 4)
        (entries,) = struct.unpack_from(f"{order}H", exif, start + offset)
        struct.pack_into("4x", edited, start + offset + 2 + 12 * entries)
    return _without_pictures(edited)


def xmp_of_inverse(xmp: bytes) -> bytes:
    """Give an XMP packet, or nothing if it describes what the inverse does not have."""
    return b"" if _OUTDATED_XMP.search(xmp) else xmp


def jpeg_segments(source: JpegImageFile) -> list[tuple[bytes, bytes]]:
    """Give the marker and the data of a JPEG's comments, and of the segment with IPTC's data."""
    segments = [(b"\xff\xfe", data) for name, data in source.applist if name == "COM"]
    resources = source.info.get("photoshop", {})
    kept = b"".join(
        b"8BIM" + struct.pack(">H2xI", code, len(data)) + data + bytes(len(data) % 2)
        for code in _RESOURCES_KEPT
        if (data := _without_pictures(resources.get(code, b"")))
    )
    if kept:
        segments.append((b"\xff\xed", b"Photoshop 3.0\0" + kept))
    return segments


def png_chunks(content: bytes) -> bytes:
    """Give the chunks of a PNG that describe its inverse, too.

    Raises
    ------
    ValueError, struct.error
        The checksum of any chunk is wrong, or the file is cut off.
    """
    kept, position, name = bytearray(), 8, b""
    while name != b"IEND":
        length, name = struct.unpack_from(">I4s", content, position)
        data = content[position + 8 : position + 8 + length]
        (checksum,) = struct.unpack_from(">I", content, position + 8 + length)
        if zlib.crc32(data, zlib.crc32(name)) != checksum:
            raise ValueError("a wrong checksum")
        position += 12 + length
        if name == b"eXIf":
            data = exif_without_pictures(data)
        elif name == b"iTXt":
            data = xmp_of_inverse(data)
        if data and name in _PNG_KEPT and not data.startswith(_OPAQUE_TEXTS):
            kept += png_chunk(name, data)
    return bytes(kept)


def png_chunk(name: bytes, data: bytes) -> bytes:
    """Give a chunk with its length and checksum."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _without_pictures(data: bytes | bytearray) -> bytes:
    return bytes(_PICTURE.sub(lambda found: bytes(len(found[0])), data))
