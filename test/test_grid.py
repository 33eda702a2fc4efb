"""The grid: every point has exactly one cell, and a cell never changes its name."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.errors import MapError
from aerial_vpr_cl.geo.grid import NO_CLASS, Grid

coordinate = st.floats(-2e7, 2e7, allow_nan=False)
sides = st.sampled_from([25.0, 100.0, 200.0, 250.0, 333.3])


def rectangle(side_m: float = 200.0, modulus: int = 2, rows: int = 6, columns: int = 7) -> Grid:
    i, j = np.meshgrid(np.arange(columns) - 2, np.arange(rows) + 20_000, indexing="ij")
    centres = (np.stack([i.ravel(), j.ravel()], axis=1) + 0.5) * side_m
    return Grid.over_points(centres, epsg=32650, cell_side_m=side_m, modulus=modulus)


@given(st.lists(st.tuples(coordinate, coordinate), min_size=1, max_size=30), sides)
def test_every_point_of_the_area_belongs_to_exactly_one_cell(points, side_m):
    points = np.array(points)
    grid = Grid.over_points(points, epsg=32633, cell_side_m=side_m, modulus=2)
    labels = grid.class_of(points)
    assert (labels >= 0).all()
    low = grid.cells * side_m
    # Tested on the cell index, as the edge in metres is rounded for sides such as 333.3.
    assert np.array_equal(np.floor(points / side_m).astype(int), grid.cells[labels])
    holders = (np.floor(points[:, None] / side_m) == np.round(low / side_m)).all(axis=2).sum(axis=1)
    assert (holders == 1).all()


@given(st.integers(2, 5), sides)
def test_neighbours_never_share_a_group(modulus, side_m):
    grid = rectangle(side_m, modulus)
    group_of = {tuple(cell): group for cell, group in zip(grid.cells.tolist(), grid.groups.tolist())}
    for (i, j), group in group_of.items():
        for di, dj in [(0, 1), (1, 0), (1, 1), (1, -1)]:
            assert group_of.get((i + di, j + dj), -1) != group


def test_groups_follow_the_formula_also_for_negative_indices():
    grid = rectangle(modulus=3)
    for (i, j), group in zip(grid.cells.tolist(), grid.groups.tolist()):
        assert group == (i % 3) * 3 + j % 3


@given(sides, st.integers(1, 4))
def test_the_centre_of_a_cell_lies_in_that_cell(side_m, modulus):
    grid = rectangle(side_m, modulus)
    assert np.array_equal(grid.class_of(grid.centres), np.arange(grid.n_classes))


def test_every_class_stands_in_exactly_one_head():
    grid = rectangle(modulus=3)
    rows = np.concatenate([grid.classes_of_group(group) for group in range(grid.n_groups)])
    assert np.array_equal(np.sort(rows), np.arange(grid.n_classes))


def test_points_outside_and_nan_have_no_class():
    grid = rectangle()
    outside = [[1e7, 1e7], [-1e12, 4e6], [np.nan, 4e6], [np.inf, 0.0], [-401.0, 4_000_100.0]]
    assert (grid.class_of(outside) == NO_CLASS).all()


def test_a_hole_in_the_map_has_no_class():
    grid = Grid.over_points([[100.0, 100.0], [500.0, 100.0]], epsg=32650, cell_side_m=200.0, modulus=2)
    assert grid.class_of([[300.0, 100.0]])[0] == NO_CLASS


def test_classes_are_ordered_and_do_not_depend_on_the_order_of_patches():
    points = np.random.default_rng(0).uniform(0, 5000, (200, 2))
    first = Grid.over_points(points, epsg=32650, cell_side_m=200.0, modulus=2)
    second = Grid.over_points(points[::-1], epsg=32650, cell_side_m=200.0, modulus=2)
    assert first.hash == second.hash
    assert np.array_equal(first.cells, np.array(sorted(map(tuple, first.cells.tolist()))))


def test_the_grid_survives_json_and_keeps_its_hash():
    grid = rectangle()
    assert Grid.from_dict(json.loads(json.dumps(grid.to_dict()))).hash == grid.hash


def test_anything_that_changes_the_meaning_of_a_class_changes_the_hash():
    grid = rectangle()
    others = [
        Grid(32651, grid.cell_side_m, grid.modulus, grid.cells),
        Grid(grid.epsg, 201.0, grid.modulus, grid.cells),
        Grid(grid.epsg, grid.cell_side_m, 3, grid.cells),
        Grid(grid.epsg, grid.cell_side_m, grid.modulus, grid.cells[1:]),
    ]
    assert len({grid.hash, *[other.hash for other in others]}) == 5


@pytest.mark.parametrize(
    "change", [{"cells": []}, {"cells": [[1, 1], [0, 0]]}, {"cell_side_m": -1}, {"modulus": 0}, {"cells": None}]
)
def test_a_grid_that_makes_no_sense_is_refused(change):
    with pytest.raises(MapError):
        Grid.from_dict({"epsg": 32650, "cell_side_m": 200.0, "modulus": 2, "cells": [[0, 0]], **change})
