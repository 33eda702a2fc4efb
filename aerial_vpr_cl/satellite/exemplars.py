"""M_EX, the static exemplar memory: the herded satellite patches that keep the base map alive (paper, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import h5py
import numpy as np
from numpy.typing import ArrayLike, NDArray

from aerial_vpr_cl.errors import MapError, StoreError
from aerial_vpr_cl.files import new_file, sha256_of
from aerial_vpr_cl.images import encode_jpeg
from aerial_vpr_cl.satellite.herding import herd
from aerial_vpr_cl.satellite.patches import PatchTable
from aerial_vpr_cl.satellite.raster import SatelliteMap

__all__ = ["ExemplarMemory", "herd"]

FORMAT = 1
READ_BATCH = 256


@dataclass(frozen=True, eq=False)
class ExemplarMemory:
    """Chosen patches, by class and herding order: references into the raster, or JPEG images that travel alone."""

    centres: NDArray[np.float64]  # (n, 2)
    angles_deg: NDArray[np.float64]  # (n,)
    labels: NDArray[np.int64]  # (n,)
    footprint_m: float
    images: list[bytes] | None = None  # JPEG

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def choose(
        cls,
        patches: PatchTable,
        rows: ArrayLike,
        *,
        images_from: SatelliteMap | None = None,
        size_px: int = 224,
    ) -> ExemplarMemory:
        """The patches in the given rows (from `herd`); with JPEG images when a map to read them from is given."""
        rows = np.asarray(rows, np.int64)
        centres, angles = patches.centres[rows], patches.angles_deg[rows]
        images: list[bytes] | None = None
        if images_from is not None:
            images = []
            for first in range(0, len(rows), READ_BATCH):
                batch = slice(first, first + READ_BATCH)
                read, _ = images_from.read_patches(centres[batch], angles[batch], patches.footprint_m, size_px)
                images += [encode_jpeg(image) for image in read]
        return cls(centres, angles, patches.labels[rows], patches.footprint_m, images)

    def read(
        self, indices: Sequence[int] | NDArray[np.int64], size_px: int, satellite: SatelliteMap | None = None
    ) -> NDArray[np.uint8]:
        """Exemplars as RGB (n, s, s, 3): from their images if they have them, else from the map."""
        indices = np.asarray(indices, np.int64)
        if self.images is not None:
            decoded = np.empty((len(indices), size_px, size_px, 3), np.uint8)
            for place, index in enumerate(indices):
                decoded[place] = _decode(self.images[index], size_px)
            return decoded
        if satellite is None:
            raise MapError(
                "exemplars: kept as references into the raster, but no raster was given; "
                "open the map, or keep them as images"
            )
        return satellite.read_patches(self.centres[indices], self.angles_deg[indices], self.footprint_m, size_px)[0]

    def save(self, path: Path, grid_hash: str) -> None:
        """Write the memory as HDF5, once: a file that is there is never replaced."""
        path = Path(path)
        if path.exists():
            raise StoreError(f"{path}: the exemplar memory is written once and is there already; use another store")
        with new_file(path) as temporary, h5py.File(temporary, "w") as file:
            file.attrs.update(format=FORMAT, grid_hash=grid_hash, footprint_m=self.footprint_m)
            columns = {"centres": self.centres, "angles_deg": self.angles_deg, "labels": self.labels}
            if self.images is not None:
                # One long array: checksums do not reach the content of variable-length entries.
                columns["image_bytes"] = np.frombuffer(b"".join(self.images), np.uint8)
                columns["image_ends"] = np.cumsum([len(image) for image in self.images], dtype=np.int64)
            for name, values in columns.items():
                file.create_dataset(
                    name, data=values, chunks=True if len(values) else None, fletcher32=bool(len(values))
                )

    @classmethod
    def load(cls, path: Path, grid_hash: str, sha256: str | None = None) -> ExemplarMemory:
        """Read a memory of this grid; with `sha256` the file must be the very one that was written."""
        path = Path(path)
        if not path.is_file():
            raise StoreError(f"{path}: no exemplar memory; make it with aerial-vpr train-base")
        if sha256 is not None and sha256_of(path) != sha256:
            raise StoreError(
                f"{path}: damaged, its SHA-256 is not the recorded one; restore it from a copy of the store"
            )
        try:
            with h5py.File(path, "r") as file:
                if file.attrs["format"] != FORMAT:
                    raise StoreError(f"{path}: has format {file.attrs['format']}, this software reads {FORMAT}")
                found = str(file.attrs["grid_hash"])
                if found != grid_hash:
                    raise StoreError(
                        f"{path}: belongs to the grid {found[:12]}…, not to {grid_hash[:12]}…; "
                        "use the store it was made in"
                    )
                images = None
                if "image_bytes" in file:
                    data, ends = file["image_bytes"][:].tobytes(), file["image_ends"][:].tolist()
                    images = [data[start:end] for start, end in zip([0, *ends], ends)]
                footprint_m = float(file.attrs["footprint_m"])
                return cls(file["centres"][:], file["angles_deg"][:], file["labels"][:], footprint_m, images)
        except (OSError, KeyError, ValueError) as error:
            raise StoreError(f"{path}: damaged, {error}; restore it from a copy of the store") from None


def _decode(data: bytes, size_px: int) -> NDArray[np.uint8]:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise StoreError("exemplars: an image cannot be decoded; restore exemplars.h5 from a copy of the store")
    if image.shape[0] != size_px:
        shrinking = image.shape[0] > size_px
        image = cv2.resize(image, (size_px, size_px), interpolation=cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR)
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)
