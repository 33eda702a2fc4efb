"""A procedural world, the same for the same seed: districts, roads, a river, woods, fields, blocks and roofs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np

from aerial_vpr_cl.settings import setting
from aerial_vpr_cl.simulation.world.buildings import build_block, build_farm
from aerial_vpr_cl.simulation.world.layers import FLAT_ROOF, Building, Canvas, Ground, Layers, Use
from aerial_vpr_cl.simulation.world.noise import smooth_noise
from aerial_vpr_cl.simulation.world.parcels import Bend, Points, densify, divide, long_axis, polygon_area, split
from aerial_vpr_cl.simulation.world.trees import grow_trees


@dataclass(frozen=True)
class WorldSettings:
    """The ground of a procedural world and where on Earth it lies."""

    seed: int = setting(1, "which world", low=0)
    width_m: float = setting(3200.0, "extent west to east", low=200.0)
    height_m: float = setting(3200.0, "extent south to north", low=200.0)
    resolution_m: float = setting(2.0, "metres per pixel", low=0.25, high=20.0)
    epsg: int = setting(32650, "UTM zone of the world")
    west: float = setting(804000.0, "easting of the south-west corner")
    south: float = setting(4022000.0, "northing of the south-west corner")
    town_share: float = setting(0.4, "share of the districts that are built up", low=0.0, high=1.0)
    wood_share: float = setting(0.18, "share of the districts that are wooded", low=0.0, high=1.0)


DISTRICT_M2 = 260_000.0
PARCEL_M2 = {
    Use.FARMLAND: 30_000.0,
    Use.WOODLAND: 90_000.0,
    Use.TOWN: 11_000.0,
    Use.SUBURB: 13_000.0,
    Use.INDUSTRY: 30_000.0,
}
STREET_M = {Use.TOWN: 8.0, Use.SUBURB: 6.0, Use.INDUSTRY: 9.0}


def make_layers(settings: WorldSettings) -> Layers:
    """Lay out a world. Everything follows from the settings."""
    return _Builder(settings).build()


class _Builder:
    """Draws one world layer after another; later ones override earlier ones, as in reality."""

    def __init__(self, settings: WorldSettings) -> None:
        self.settings = settings
        self.rng = np.random.default_rng([settings.seed, 0x5EED])
        self.extent = np.array([settings.width_m, settings.height_m])
        self.canvas = Canvas(settings.width_m, settings.height_m, settings.resolution_m)
        self.bend = Bend(float(self.extent.max()), 38.0, 700.0, self.rng)
        shape = self.canvas.shape
        self.ground = np.full(shape, Ground.MEADOW, np.uint8)
        self.parcel = np.zeros(shape, np.int32)
        self.second_half = np.zeros(shape, np.uint8)
        self.building = np.zeros(shape, np.int32)
        self.roof_aspect = np.full(shape, FLAT_ROOF, np.uint8)
        self.hedge = np.zeros(shape, np.uint8)
        self.uses: list[Use] = [Use.FARMLAND]
        self.furrows: list[float] = [0.0]
        self.buildings: list[Building] = []

    def build(self) -> Layers:
        districts, main_roads = self._districts()
        blocks: list[tuple[Points, Use]] = []
        streets: list[tuple[Points, float, Ground]] = []
        for district, use in districts:
            self._parcels(district, use, blocks, streets)
        self._woods()
        for line, width, kind in streets:
            self.canvas.line(self.ground, line, width, kind)
        self._water()
        for line, width in main_roads:
            self.canvas.line(self.ground, line, width, Ground.ROAD)
        self._railway()
        self._raise_buildings(blocks)
        return Layers(
            ground=self.ground,
            parcel=self.parcel,
            second_half=self.second_half.astype(bool),
            building=self.building,
            roof_aspect=self.roof_aspect,
            tree_m=grow_trees(self.ground, self.building, self.hedge, self.settings.resolution_m, self.rng),
            parcel_use=np.array(self.uses, np.uint8),
            parcel_furrow_deg=np.array(self.furrows, np.float32),
            building_height_m=np.array([0.0, *(b.height_m for b in self.buildings)], np.float32),
            building_material=np.array([0, *(b.material for b in self.buildings)], np.uint8),
            building_spare=np.array([False, *(b.spare for b in self.buildings)], bool),
        )

    def _districts(self) -> tuple[list[tuple[Points, Use]], list[tuple[Points, float]]]:
        """Districts with their use, and the main roads between them."""
        margin = 150.0
        low, high = -margin, self.extent + margin
        square = np.array([[low, low], [high[0], low], [high[0], high[1]], [low, high[1]]])
        division = divide(square, DISTRICT_M2, self.rng, jitter_deg=24.0)
        towns = self.rng.uniform(0.15, 0.85, (3, 2)) * self.extent
        centres = np.array([part.mean(axis=0) for part in division.parts])
        # Rank districts by closeness to a town, blurred by chance, so that shares are kept in every world.
        closeness = -np.min(np.hypot(*(centres[:, None] - towns).transpose(2, 0, 1)), axis=1)
        closeness += self.rng.normal(0.0, 220.0, len(centres))
        order = np.argsort(-closeness)
        built = round(self.settings.town_share * len(order))
        wooded = built + round(self.settings.wood_share * len(order))
        shuffled_rest = self.rng.permutation(order[built:])
        order = np.concatenate([order[:built], shuffled_rest])
        uses = np.full(len(order), Use.FARMLAND)
        uses[order[:built]] = self.rng.choice([Use.TOWN, Use.SUBURB, Use.INDUSTRY], built, p=[0.4, 0.4, 0.2])
        uses[order[built:wooded]] = Use.WOODLAND
        districts = [(part, Use(use)) for part, use in zip(division.parts, uses)]
        # The first cuts are the longest: they are the highways.
        roads = [
            (self.bend(densify(cut, 15.0)), 16.0 if rank < 2 else 11.0 if rank < 6 else 8.0)
            for rank, cut in enumerate(division.cuts)
        ]
        return districts, roads

    def _parcels(
        self,
        district: Points,
        use: Use,
        blocks: list[tuple[Points, Use]],
        streets: list[tuple[Points, float, Ground]],
    ) -> None:
        """Divide one district; fill its parcels; remember its blocks and streets."""
        spread = self.rng.uniform(0.5, 1.6) if use is Use.FARMLAND else 1.0
        division = divide(district, PARCEL_M2[use] * spread, self.rng, jitter_deg=4.0 if use in STREET_M else 9.0)
        for cut in division.cuts:
            line = self.bend(densify(cut, 15.0))
            if use in STREET_M:
                streets.append((line, STREET_M[use], Ground.ROAD))
            elif self.rng.random() < 0.3:
                streets.append((line, 3.5, Ground.TRACK))
            elif use is Use.FARMLAND and self.rng.random() < 0.3:
                self.canvas.line(self.hedge, line, 4.0, 1)
        for part in division.parts:
            self._fill_parcel(part, use, blocks)

    def _fill_parcel(self, part: Points, use: Use, blocks: list[tuple[Points, Use]]) -> None:
        outline = self.bend(densify(np.vstack([part, part[:1]]), 15.0))
        kinds = {
            Use.FARMLAND: ((Ground.FIELD, Ground.MEADOW), (0.85, 0.15)),
            Use.WOODLAND: ((Ground.FOREST, Ground.MEADOW), (0.85, 0.15)),
            Use.TOWN: ((Ground.PAVED, Ground.YARD), (0.55, 0.45)),
            Use.SUBURB: ((Ground.YARD, Ground.MEADOW), (0.92, 0.08)),
            Use.INDUSTRY: ((Ground.PAVED, Ground.MEADOW), (0.85, 0.15)),
        }
        choices, shares = kinds[use]
        kind = Ground(self.rng.choice(choices, p=shares))
        centre, axis = long_axis(part)
        number = len(self.uses)
        self.uses.append(use)
        self.furrows.append(float(np.degrees(np.arctan2(axis[1], axis[0]))))
        self.canvas.fill(self.ground, outline, kind)
        self.canvas.fill(self.parcel, outline, number)
        _, other, _ = split(part, centre, axis if self.rng.random() < 0.5 else np.array([-axis[1], axis[0]]))
        if len(other) >= 3:
            self.canvas.fill(self.second_half, self.bend(densify(np.vstack([other, other[:1]]), 15.0)), 1)
        # A meadow inside a town is a park or a playing field: it stays empty.
        is_block = use in STREET_M and kind is not Ground.MEADOW
        is_farm = use is Use.FARMLAND and polygon_area(part) > 15_000.0 and self.rng.random() < 0.12
        if is_block or is_farm:
            blocks.append((part, use))

    def _woods(self) -> None:
        """Copses with natural edges over fields and meadows, and clearings in the forest."""
        scale = 260.0 / self.settings.resolution_m
        patches = smooth_noise(self.canvas.shape, scale, self.rng, octaves=5)
        open_land = (self.ground == Ground.FIELD) | (self.ground == Ground.MEADOW)
        self.ground[open_land & (patches > 1.45)] = Ground.FOREST
        self.ground[(self.ground == Ground.FOREST) & (patches < -1.2)] = Ground.MEADOW

    def _water(self) -> None:
        """One meandering river through the world and a few ponds."""
        angle = self.rng.uniform(0.0, np.pi)
        along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        reach = float(np.hypot(*self.extent)) * 0.75
        middle = self.extent * self.rng.uniform(0.3, 0.7, 2)
        t = np.arange(-reach, reach, 4.0)
        meander = sum(
            amplitude
            * np.sin(2.0 * np.pi * t / self.rng.uniform(0.7, 1.3) / wavelength + self.rng.uniform(0, 2 * np.pi))
            for amplitude, wavelength in ((150.0, 2100.0), (70.0, 800.0), (22.0, 330.0))
        )
        width = 34.0 + 10.0 * np.sin(2.0 * np.pi * t / 900.0 + self.rng.uniform(0, 6.3))
        for point, breadth in zip(middle + t[:, None] * along + np.asarray(meander)[:, None] * across, width):
            self.canvas.disc(self.ground, point, breadth / 2.0, Ground.WATER)
        shape = self.canvas.shape
        rough = smooth_noise(shape, 90.0 / self.settings.resolution_m, self.rng, octaves=3)
        rows, columns = np.indices(shape, np.float32) * self.settings.resolution_m
        for _ in range(int(self.rng.integers(3, 6))):
            x, y = self.rng.uniform(0.05, 0.95, 2) * self.extent
            radius = self.rng.uniform(30.0, 110.0)
            stretch = self.rng.uniform(0.6, 1.6)
            distance = np.hypot((columns - x) * stretch, (rows - y) / stretch)
            built = (self.ground == Ground.ROAD) | (self.ground == Ground.PAVED)
            self.ground[(distance + 0.35 * radius * rough < radius) & ~built] = Ground.WATER

    def _railway(self) -> None:
        start, end = self.rng.uniform(-0.05, 1.05, 2) * self.extent[1]
        line = np.array([[-60.0, start], [self.extent[0] + 60.0, end]])
        self.canvas.line(self.ground, self.bend(densify(line, 15.0)), 8.0, Ground.RAIL)

    def _raise_buildings(self, blocks: Iterable[tuple[Points, Use]]) -> None:
        """Draw every building that keeps clear of roads, water and its neighbours."""
        barred = np.isin(self.ground, (Ground.ROAD, Ground.WATER, Ground.RAIL)).astype(np.uint8)
        taken = np.asarray(cv2.dilate(barred, np.ones((3, 3), np.uint8)), np.uint8)
        for block, use in blocks:
            made = build_farm(block, self.rng) if use is Use.FARMLAND else build_block(block, use, self.rng)
            for building in made:
                outline = self.bend(building.outline)
                if self.canvas.covers(outline, taken):
                    self.buildings.append(building)
                    self._draw_building(outline, building, len(self.buildings))
                    self.canvas.fill(taken, outline, 1)

    def _draw_building(self, outline: Points, building: Building, number: int) -> None:
        self.canvas.fill(self.building, outline, number)
        if not building.gabled:
            return
        # The ridge runs along the longer side; the two slopes look away from it.
        a, b, c, d = (
            outline
            if np.hypot(*(outline[1] - outline[0])) > np.hypot(*(outline[2] - outline[1]))
            else np.roll(outline, 1, axis=0)
        )
        ridge = ((a + d) / 2.0, (b + c) / 2.0)
        for eave in ((a, b), (d, c)):
            slope = (eave[0] + eave[1] - ridge[0] - ridge[1]) / 2.0
            azimuth = np.degrees(np.arctan2(slope[0], slope[1])) % 360.0
            half = np.array([eave[0], eave[1], ridge[1], ridge[0]])
            self.canvas.fill(self.roof_aspect, half, round(azimuth / 360.0 * 254.0))
