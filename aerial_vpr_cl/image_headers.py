"""What the header of an encoded image says, without decoding it."""

from __future__ import annotations

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission.messages import JPEG_SIGNATURE, PNG_SIGNATURE

TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
"""Little and big end first, of plain files and of those beyond 4 GB."""
_PNG_BIT_DEPTH = 24  # place of the bit depth in a PNG
_JPEG_TABLES = (0xC4, 0xC8, 0xCC)  # among the frame headers, but none: tables and what is reserved
_TIFF_WIDTH, _TIFF_HEIGHT = 256, 257
_TIFF_SHORT = 3
_MOST_TIFF_TAGS = 4096


def is_kept_as_it_is(encoded: bytes) -> bool:
    """Whether encoded bytes are an 8-bit JPEG or PNG, which every decoder shows alike; 16 bit has to be scaled."""
    if encoded[:8] == PNG_SIGNATURE:
        return encoded[_PNG_BIT_DEPTH : _PNG_BIT_DEPTH + 1] == b"\x08"
    return encoded[:3] == JPEG_SIGNATURE


def size_of(encoded: bytes | memoryview) -> tuple[int, int]:
    """Width and height of a JPEG, PNG or TIFF in pixels, by its header; MissionError if it has none."""
    if encoded[:4] in TIFF_SIGNATURES:
        return _size_of_tiff(encoded)
    if encoded[:8] == PNG_SIGNATURE and len(encoded) >= 24:
        return int.from_bytes(encoded[16:20], "big"), int.from_bytes(encoded[20:24], "big")
    place = 2
    while encoded[:3] == JPEG_SIGNATURE and place + 9 <= len(encoded):
        marker, length = encoded[place + 1], int.from_bytes(encoded[place + 2 : place + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in _JPEG_TABLES:
            return (
                int.from_bytes(encoded[place + 7 : place + 9], "big"),
                int.from_bytes(encoded[place + 5 : place + 7], "big"),
            )
        place += 1 if marker == 0xFF else 2 + length  # segments may be padded with 0xFF
    raise MissionError(f"{len(encoded)} bytes have no header of a JPEG, PNG or TIFF image")


def _size_of_tiff(encoded: bytes | memoryview) -> tuple[int, int]:
    """Of the first picture in the file, the one that is decoded; of a tag that is there twice, the larger value."""
    order = "little" if encoded[:2] == b"II" else "big"
    word, head = (8, 8) if 43 in (encoded[2], encoded[3]) else (4, 4)

    def number(place: int, size: int) -> int:
        return int.from_bytes(encoded[place : place + size], order)  # type: ignore[arg-type]

    table = number(head, word)
    n_bytes, entry = (8, 20) if word == 8 else (2, 12)
    found = {_TIFF_WIDTH: 0, _TIFF_HEIGHT: 0}
    for n in range(min(number(table, n_bytes), _MOST_TIFF_TAGS)):
        place = table + n_bytes + n * entry
        tag, kind = number(place, 2), number(place + 2, 2)
        if tag in found:
            found[tag] = max(found[tag], number(place + 4 + word, 2 if kind == _TIFF_SHORT else word))
    if not all(found.values()):
        raise MissionError(f"{len(encoded)} bytes have no header of a JPEG, PNG or TIFF image")
    return found[_TIFF_WIDTH], found[_TIFF_HEIGHT]
