"""Images that tell nothing: blank ones, and those of a camera that stopped."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

BLANK_CONTRAST = 1.0
"""Standard deviation in grey levels below which an image shows nothing: a lens cap, a dead sensor, thick cloud."""

THUMB_PX = 32
SAME_LEVELS = 1
"""Grey levels by which no pixel of the thumbnails of two images of the same view differs more."""
FROZEN_SHARE = 0.05
"""Share of the footprint that must have passed below while the image stayed the same."""


def is_blank(image: NDArray[np.uint8]) -> bool:
    """Whether an image is one shade all over, judged on a lattice of at most some 64 × 64 pixels."""
    rows, columns = (max(1, side // 64) for side in image.shape[:2])
    _, deviations = cv2.meanStdDev(np.ascontiguousarray(image[::rows, ::columns]))
    return bool(deviations.max() < BLANK_CONTRAST)


class ImageWatch:
    """Compares each image with the last one that was another: at a high rate each is nearly the one before."""

    def __init__(self, footprint_m: float) -> None:
        self._frozen_m = FROZEN_SHARE * footprint_m
        self.reset()

    def reset(self) -> None:
        """Know of no image."""
        self._thumb: NDArray[np.int16] | None = None
        self._way_m = 0.0
        self.repeated = False

    def is_frozen(self, image: NDArray[np.uint8], moved_m: float) -> bool:
        """Whether the image stayed the same while the drone moved on; `repeated` says whether it stayed the same."""
        thumb: NDArray[np.int16] = cv2.resize(image, (THUMB_PX, THUMB_PX), interpolation=cv2.INTER_AREA).astype(
            np.int16
        )
        self.repeated = self._thumb is not None and bool(np.abs(thumb - self._thumb).max() <= SAME_LEVELS)
        if not self.repeated:
            self._thumb, self._way_m = thumb, 0.0
            return False
        self._way_m += moved_m
        return self._way_m > self._frozen_m
