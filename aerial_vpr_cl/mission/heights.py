"""Height above ground: by a range finder, by altitude and the terrain under it, above home, or as it is set."""

from __future__ import annotations

import math
from typing import NamedTuple

from aerial_vpr_cl.geo.terrain import Near, Terrain
from aerial_vpr_cl.mission.readings import ABOVE_HOME, SLANT, AltitudeReading, HeightReading
from aerial_vpr_cl.mission.sensor_settings import SensorSettings
from aerial_vpr_cl.mission.series import Around, Series

LEAST_SIGMA = 0.01
"""No height is better than this share of it, whatever its driver states."""
LARGEST_SIGMA_M = 1e6
CLIMB_M_S = 3.0
"""How fast the height may change: what a reading that is a little old adds to its sigma."""
LEAST_UPRIGHT = 0.5
"""Cosine of the tilt, 60°, beyond which a range finder looks at other ground than that below."""


class Height(NamedTuple):
    """Metres, above ground or wherever they are counted from."""

    height_m: float
    sigma_m: float
    is_slant: bool = False  # a range along the body's down axis, which is a height once the tilt is known


class HeightMeter:
    """All that tells how high the drone is, asked frame by frame."""

    def __init__(self, settings: SensorSettings, terrain: Terrain | None = None) -> None:
        self._settings = settings
        self._terrain = terrain
        self._heights = Series[Height](settings.height_max_age_s)
        self._above_home = Series[Height](settings.height_max_age_s)
        self._altitudes = Series[Height](settings.height_max_age_s)

    def add(self, reading: HeightReading) -> None:
        """Take a height above ground, or above home."""
        series = self._above_home if reading.kind == ABOVE_HOME else self._heights
        height_m = reading.height_m
        if not math.isfinite(height_m) or height_m <= 0.0:
            series.refuse(f"a height of {height_m:g} m is none")
        elif not reading.lowest_m <= height_m <= reading.highest_m:
            reach = f"{reading.lowest_m:g} to {reading.highest_m:g} m"
            series.refuse(f"{height_m:g} m is outside of what the range finder can tell, {reach}")
        else:
            known = self._settings.stated_sigmas and reading.sigma_m >= 0.0
            sigma_m = reading.sigma_m if known else self._settings.height_sigma * height_m
            sigma_m = min(max(sigma_m, LEAST_SIGMA * height_m), LARGEST_SIGMA_M)
            is_slant = reading.kind == SLANT and not self._settings.range_is_vertical
            series.add(reading.stamp_ns, Height(height_m, sigma_m, is_slant))

    def add_altitude(self, reading: AltitudeReading) -> None:
        """Take an altitude, counted as the elevations of the terrain are."""
        if math.isfinite(reading.altitude_m):
            altitude = Height(reading.altitude_m, self._settings.altitude_sigma_m)
            self._altitudes.add(reading.stamp_ns, altitude)

    def clear(self) -> None:
        """Forget all readings."""
        self._heights.clear()
        self._above_home.clear()
        self._altitudes.clear()

    def at(self, stamp_ns: int, near: Near | None = None, upright: float | None = None) -> tuple[Height | None, str]:
        """The height at a moment, and what is wrong with the way one would rather have known it.

        `upright` is the cosine of the body's tilt. Home may lie higher or lower than the ground here: altitude and
        terrain know better.
        """
        height, why = self._below(stamp_ns, upright)
        if height is not None:
            return height, ""
        height, fault = self._above_terrain(stamp_ns, near)
        if height is not None:
            return height, why and f"{why}; altitude and terrain are used"
        around, lost = self._above_home.at(stamp_ns)
        if around is not None:
            return _interpolated(around), why and f"{why}; the height above home is used"
        constant_m, why = self._settings.height_m, why or fault or lost
        if constant_m > 0.0:
            constant = Height(constant_m, self._settings.height_sigma * constant_m)
            return constant, why and f"{why}; height_m of {constant_m:g} m is used"
        return None, why

    def _below(self, stamp_ns: int, upright: float | None) -> tuple[Height | None, str]:
        """What was measured to the ground; where the tilt is unknown a range counts as it is."""
        around, why = self._heights.at(stamp_ns)
        if around is None:
            return None, why
        if upright is None:
            return _interpolated(around), ""
        if upright < LEAST_UPRIGHT and (around.before.is_slant or around.after.is_slant):
            return None, "the drone is tilted too far for its range finder"
        return _interpolated(around, upright), ""

    def _above_terrain(self, stamp_ns: int, near: Near | None) -> tuple[Height | None, str]:
        if self._terrain is None:
            return None, ""
        around, why = self._altitudes.at(stamp_ns)
        ground = self._terrain.under(near) or self._terrain.under()
        if around is None or ground is None:
            return None, why
        altitude, (ground_m, ground_sigma_m) = _interpolated(around), ground
        height_m = altitude.height_m - ground_m
        if height_m <= 0.0:
            words = f"an altitude of {altitude.height_m:.0f} m is below the terrain at {ground_m:.0f} m"
            return None, f"{words}; do both count from the same sea level (--dem-offset-m)?"
        return Height(height_m, math.hypot(altitude.sigma_m, ground_sigma_m)), ""


def _interpolated(around: Around[Height], upright: float = 1.0) -> Height:
    before, after = (_straight_down(height, upright) for height in (around.before, around.after))
    height_m = before.height_m + around.share * (after.height_m - before.height_m)
    # Of a single reading that is a little old nobody knows what has changed since.
    extra_m = CLIMB_M_S * around.age_s if around.before is around.after else 0.0
    return Height(height_m, math.hypot(max(before.sigma_m, after.sigma_m), extra_m))


def _straight_down(height: Height, upright: float) -> Height:
    return Height(height.height_m * upright, height.sigma_m * upright) if height.is_slant else height
