"""The picture of a registration shows all that was searched, and is bright only where the view may belong."""

import numpy as np
import pytest

from aerial_vpr_cl.localization.registration import Peak, Registration, Surface
from aerial_vpr_cl.page.peak_picture import NOT_SEARCHED, peak_picture

SIDE = 100


def surface(west, north, step_m, values):
    return Surface(west, north, step_m, np.asarray(values, np.float32))


def hill(height, size=50, at=(25, 25)):
    rows, columns = np.mgrid[:size, :size]
    return height * np.exp(-((rows - at[0]) ** 2 + (columns - at[1]) ** 2) / 18.0)


def brightness(picture):
    return picture.astype(float).sum(axis=2)


def test_the_peak_is_bright_and_the_rest_dark():
    picture, across_m = peak_picture(Registration([surface(1000.0, 2000.0, 10.0, hill(25.0, at=(10, 40)))], None), SIDE)
    assert across_m == 500.0 and picture.shape == (SIDE, SIDE, 3)
    row, column = np.unravel_index(int(brightness(picture).argmax()), (SIDE, SIDE))
    assert abs(row - 21) <= 3 and abs(column - 81) <= 3
    assert brightness(picture)[80, 20] < 0.5 * brightness(picture)[row, column]


def test_a_second_place_that_is_as_likely_is_as_bright():
    both = np.maximum(hill(20.0, at=(10, 10)), hill(20.0, at=(40, 40)))
    picture, _ = peak_picture(Registration([surface(0.0, 500.0, 10.0, both)], None), SIDE)
    shades = brightness(picture)
    assert shades[21, 21] == pytest.approx(shades[81, 81], rel=0.05) and shades[21, 21] > 2.0 * shades[50, 90]


def test_a_peak_that_hardly_stands_out_leaves_its_surroundings_bright():
    strong, _ = peak_picture(Registration([surface(0.0, 500.0, 10.0, hill(25.0))], None), SIDE)
    weak, _ = peak_picture(Registration([surface(0.0, 500.0, 10.0, hill(1.0))], None), SIDE)
    assert brightness(weak)[5, 5] > brightness(strong)[5, 5] + 50.0


def test_windows_apart_are_shown_together_and_what_lies_between_was_not_searched():
    windows = [surface(0.0, 1000.0, 5.0, np.zeros((20, 20))), surface(900.0, 100.0, 5.0, hill(30.0, 20, (10, 10)))]
    picture, across_m = peak_picture(Registration(windows, None), SIDE)
    assert across_m == 1000.0
    assert tuple(picture[50, 50]) == NOT_SEARCHED
    assert tuple(picture[5, 5]) != NOT_SEARCHED != tuple(picture[95, 95])


def test_one_sharp_place_on_a_large_map_can_be_seen():
    values = np.zeros((1000, 1000), np.float32)
    values[123, 777] = 30.0
    picture, _ = peak_picture(Registration([surface(0.0, 10_000.0, 10.0, values)], None), SIDE)
    assert brightness(picture).max() > 2.0 * np.median(brightness(picture))


def test_the_best_place_is_in_a_ring():
    place = np.array([1250.0, 1750.0])
    peak = Peak(place, np.eye(2), 20.0, 9.0, 20.0, 0.01, 0.0, 1.0, 1.0, 0.01, 0.99, None)
    picture, _ = peak_picture(Registration([surface(1000.0, 2000.0, 10.0, hill(0.0))], peak), SIDE)
    rows, columns = np.nonzero(picture.min(axis=2) > 200)
    assert len(rows) and abs(rows.mean() - 50) < 3 and abs(columns.mean() - 50) < 3
