"""Unpacking what bags hold compressed, to no more than a flight can be: a few kilobytes may unpack to gigabytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

import lz4.frame
import zstandard

from aerial_vpr_cl.errors import MissionError

MOST_AT_ONCE = 256 << 20
"""Bytes of the largest chunk or message: ten times a raw image of 24 megapixels."""
LARGEST_RATIO = 100
"""Images hardly shrink. Only whole flights of black frames would be beyond this, and nothing is learnt from those."""
_BLOCK_BYTES = 1 << 20


def _unzstd(data: bytes, most: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        return reader.read(most)


def _unlz4(data: bytes, most: int) -> bytes:
    return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=most))


UNPACK: dict[str, Callable[[bytes, int], bytes]] = {"zstd": _unzstd, "lz4": _unlz4}
"""Compression → data and most bytes wanted to bytes."""


class Unpacker:
    """Unpacks the parts of one file, all of them together to a bounded size; MissionError beyond."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._left = MOST_AT_ONCE + LARGEST_RATIO * file.stat().st_size

    def unpack(self, data: bytes, compression: str) -> bytes:
        """One chunk or message."""
        most = min(self._left, MOST_AT_ONCE)
        unpacked = UNPACK[compression](data, most + 1)
        self._spend(len(unpacked), most)
        return unpacked

    def unpack_to(self, target: IO[bytes]) -> None:
        """The whole file, which is zstd; what a cut one still holds is written before zstd's error is raised."""
        with self._file.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as reader:
            while block := reader.read(_BLOCK_BYTES):
                self._spend(len(block), self._left)
                target.write(block)

    def _spend(self, size: int, most: int) -> None:
        if size > most:
            raise MissionError(
                f"{self._file}: its {self._file.stat().st_size} bytes unpack to far more than a flight can be; "
                "it is not read"
            )
        self._left -= size
