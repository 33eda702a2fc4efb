"""The belief is a histogram filter: everything it does sparsely must be what the slow dense filter does."""

import numpy as np
import pytest
from belief_support import STEP, Surface, lattice_of, peak_at
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.localization.belief import Belief
from aerial_vpr_cl.localization.evidence import Weighing, on_lattice, ratios
from aerial_vpr_cl.localization.histogram import Histogram
from aerial_vpr_cl.localization.kernels import disc_kernel, gaussian_kernel, ring_kernel
from aerial_vpr_cl.localization.lattice import Lattice
from aerial_vpr_cl.localization.modes import fit_of, joined, likely_windows, modes


def dense(histogram):
    rows, columns = histogram.lattice.shape
    return histogram.window((0, rows), (0, columns))


def total(belief):
    return belief.histogram.total() + belief.off_map


def moments(kernel):
    reach = kernel.shape[0] // 2
    east, north = np.meshgrid(np.arange(-reach, reach + 1) * STEP, -np.arange(-reach, reach + 1) * STEP)
    mean = np.array([(kernel * east).sum(), (kernel * north).sum()])
    cross = (kernel * east * north).sum()
    return mean, np.array([[(kernel * east**2).sum(), cross], [cross, (kernel * north**2).sum()]])


@given(st.floats(0.5, 60.0), st.floats(0.5, 60.0), st.floats(-0.8, 0.8))
@settings(max_examples=40, deadline=None)
def test_a_kernel_has_the_covariance_it_was_asked_for(sigma_east, sigma_north, correlation):
    thin = min(sigma_east, sigma_north) / max(sigma_east, sigma_north)
    correlation *= thin  # a thin slanting Gaussian is widened on purpose
    cross = correlation * sigma_east * sigma_north
    wanted = np.array([[sigma_east**2, cross], [cross, sigma_north**2]])
    assume(max(sigma_east, sigma_north) < 2.0 * STEP or np.linalg.eigvalsh(wanted)[0] > STEP**2)
    kernel = gaussian_kernel(wanted, STEP)
    mean, covariance = moments(kernel)
    assert kernel.min() >= -1e-15 and kernel.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(covariance, wanted, rtol=0.03, atol=0.02 * np.trace(wanted))


@pytest.mark.parametrize("radius_m", [1.0, 4.0, 5.0, 12.0, 19.0, 40.0, 90.0])
def test_a_disc_of_any_size_spreads_by_its_variance(radius_m):
    kernel = disc_kernel(radius_m, 10.0)
    offsets = (np.arange(len(kernel)) - len(kernel) // 2) * 10.0
    assert (kernel.sum(axis=0) * offsets**2).sum() == pytest.approx(radius_m**2 / 4.0, rel=0.1)


def test_a_disc_and_a_ring_reach_as_far_as_they_say():
    _, covariance = moments(disc_kernel(80.0, STEP))
    np.testing.assert_allclose(covariance, np.eye(2) * 80.0**2 / 4.0, rtol=0.05, atol=1e-6)
    _, covariance = moments(ring_kernel(80.0, 8.0, STEP))
    np.testing.assert_allclose(covariance, np.eye(2) * 80.0**2 / 2.0, rtol=0.05, atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.floats(-300, 300), st.floats(-300, 300), st.floats(0.0, 25.0))
@settings(max_examples=25, deadline=None)
def test_sparse_motion_is_dense_motion(seed, east, north, sigma):
    """Against a plain loop over the kernel on the whole lattice; mass at the border leaves the map."""
    rng = np.random.default_rng(seed)
    histogram = Histogram(lattice_of(150, 170))
    rows, columns = sorted(rng.integers(0, 150, 2)), sorted(rng.integers(0, 170, 2))
    rows, columns = (rows[0], rows[1] + 1), (columns[0], columns[1] + 1)
    histogram.fill(rows, columns, rng.random((rows[1] - rows[0], columns[1] - columns[0])))
    before = dense(histogram)
    kernel = gaussian_kernel(np.eye(2) * sigma**2, STEP)
    lost = histogram.move((east, north), kernel)
    right, down = round(east / STEP), -round(north / STEP)
    reach, wide = kernel.shape[0] // 2, 60
    padded = np.pad(before, wide)
    expected = np.zeros_like(before)
    for i in range(-reach, reach + 1):
        for j in range(-reach, reach + 1):
            moved = np.roll(padded, (down + i, right + j), axis=(0, 1))[wide:-wide, wide:-wide]
            expected += kernel[reach + i, reach + j] * moved
    np.testing.assert_allclose(dense(histogram), expected, atol=1e-9)
    assert lost == pytest.approx(before.sum() - expected.sum(), abs=1e-6)
    np.testing.assert_allclose(histogram.offset, (east - right * STEP, north + down * STEP), atol=1e-9)


@given(st.lists(st.tuples(st.floats(-40, 40), st.floats(-40, 40)), min_size=1, max_size=60))
@settings(max_examples=25, deadline=None)
def test_small_steps_move_the_mean_exactly_and_blur_nothing(steps):
    belief = Belief(lattice_of(600, 600), off_map=0.0)
    belief.place((3001.0, 2997.0), np.eye(2) * 15.0**2)
    first = modes(belief)[0]
    for step in steps:
        belief.predict(step, np.ones((1, 1)))
    last = modes(belief)[0]
    np.testing.assert_allclose(last.mean - first.mean, np.sum(steps, axis=0), atol=1e-6)
    np.testing.assert_allclose(last.covariance, first.covariance, atol=1e-3)


def test_a_place_given_by_an_operator_is_where_he_said():
    belief = Belief(lattice_of())
    belief.place((1234.0, 777.0), [[900.0, 200.0], [200.0, 400.0]])
    mode = modes(belief)[0]
    np.testing.assert_allclose(mode.mean, (1234.0, 777.0), atol=0.5)
    np.testing.assert_allclose(mode.covariance, [[900.0, 200.0], [200.0, 400.0]], rtol=0.1, atol=15.0)
    assert mode.mass > 0.98


@pytest.mark.parametrize("sigma_m", [300.0, 400.0])
def test_a_place_is_spread_alike_whichever_way_it_is_drawn(sigma_m):
    """Beyond 320 m only what lies over the map is drawn."""
    belief = Belief(lattice_of(400, 400))
    belief.place((2000.0, 2000.0), np.eye(2) * sigma_m**2)
    assert belief.off_map < 0.01
    assert modes(belief)[0].covariance[0, 0] == pytest.approx(sigma_m**2, rel=0.1)


@pytest.mark.parametrize("variance_m2", [1e8, 1e12, 1e30])
def test_a_place_that_is_no_statement_costs_no_memory_and_says_off_the_map(variance_m2):
    belief = Belief(lattice_of())
    belief.place((1500.0, 1000.0), np.eye(2) * variance_m2)
    assert belief.off_map > 0.95 and belief.histogram.total() + belief.off_map == pytest.approx(1.0)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_a_sparse_update_is_a_dense_one(seed):
    """Windows multiply; everything else, and off the map, counts as elsewhere."""
    rng = np.random.default_rng(seed)
    belief = Belief(lattice_of(), off_map=0.2)
    reference, off_map = dense(belief.histogram).copy(), belief.off_map
    for _ in range(3):
        surfaces = [
            Surface(*rng.integers(20, 150, 2) * STEP, STEP, rng.normal(0, 2, (40, 50)).astype(np.float32))
            for _ in range(2)
        ]
        belief.update(surfaces)
        for surface in surfaces:
            top, left = round((2000.0 - surface.north) / STEP), round(surface.west / STEP)
            window = reference[max(0, top) : top + 40, left : left + 50]
            window *= np.exp(surface.log_likelihood.astype(float))[max(0, -top) :][: len(window)]
        whole = reference.sum() + off_map
        reference, off_map = reference / whole, off_map / whole
    np.testing.assert_allclose(dense(belief.histogram), reference, rtol=1e-6, atol=1e-15)
    assert belief.off_map == pytest.approx(off_map)


@given(st.floats(0, 400), st.floats(0, 400), st.floats(-4.9, 4.9), st.floats(-4.9, 4.9), st.floats(3.0, 9.0))
@settings(max_examples=25, deadline=None)
def test_a_surface_of_any_step_and_place_keeps_its_integral(west, south, east_off, north_off, step):
    histogram = Histogram(lattice_of(), 1.0)
    histogram.offset = np.array([east_off, north_off])
    x, y = np.meshgrid(np.linspace(-1, 1, 160), np.linspace(-1, 1, 160))
    factors = 1.0 + 50.0 * np.exp(-20.0 * (x**2 + y**2))
    corner = (west + 200.0, south + 200.0 + 160 * step)
    _, columns, found = on_lattice(corner, step, factors, histogram)
    assert (found - 1.0).sum() * STEP**2 == pytest.approx((factors - 1.0).sum() * step**2, rel=0.02)
    lattice = histogram.lattice
    east = lattice.west + (np.arange(*columns) + 0.5) * STEP + east_off
    weights = (found - 1.0).sum(axis=0)
    assert (weights @ east) / weights.sum() == pytest.approx(corner[0] + 80 * step, abs=1.5)


def test_what_was_not_looked_at_keeps_its_share_against_off_the_map():
    belief = Belief(lattice_of(), off_map=0.5)
    before = dense(belief.histogram)[150, 250]
    belief.update([peak_at((500.0, 1500.0), height=0.0)])
    assert dense(belief.histogram)[150, 250] / belief.off_map == pytest.approx(before / 0.5)
    assert dense(belief.histogram)[50, 50] < before  # looked at, and not found
    assert total(belief) == pytest.approx(1.0)


def test_the_same_ground_seen_again_says_no_more_about_the_place():
    """Two places fit. Ten frames without new ground must not decide between them, but each is seen more sharply."""
    here, there = peak_at((700.0, 1000.0), 8.0, sigma_m=40.0), peak_at((2200.0, 1000.0), 9.0, sigma_m=40.0)
    once, often = Belief(lattice_of()), Belief(lattice_of())
    once.update([here, there])
    often.update([here, there])
    for _ in range(10):
        often.update([here, there], Weighing(place=0.0))
    first, second = (sorted(modes(b, 2), key=lambda mode: mode.mean[0]) for b in (once, often))
    ratio_once, ratio_often = first[1].mass / first[0].mass, second[1].mass / second[0].mass
    assert ratio_once < ratio_often * 2.0 and ratio_often < ratio_once * 2.0
    assert np.trace(second[0].covariance) < np.trace(first[0].covariance)


def test_a_view_that_fits_tells_so_and_one_that_does_not_too():
    belief = Belief(lattice_of())
    belief.place((700.0, 1000.0), np.eye(2) * 400.0)
    track = modes(belief)[0]
    assert fit_of(track, belief, [peak_at((700.0, 1000.0))]) > 5.0
    assert fit_of(track, belief, [peak_at((1000.0, 1300.0), half_m=600.0)]) == pytest.approx(-1.0, abs=0.05)
    assert fit_of(track, belief, [peak_at((2000.0, 1000.0))]) == pytest.approx(0.0, abs=0.05)
    assert ratios(Surface(0.0, 100.0, STEP, np.full((10, 10), np.nan, np.float32))).max() == 1.0


def test_cells_of_the_network_lift_their_ground_and_leave_the_rest_alike():
    grid = Grid.over_points(
        [[100.0 + 200 * i, 100.0 + 200 * j] for i in range(15) for j in range(10)],
        epsg=32614,
        cell_side_m=200.0,
        modulus=3,
    )
    belief = Belief(lattice_of(200, 300), off_map=0.1)
    p = np.full(grid.n_classes, 0.1 / (grid.n_classes - 1))
    p[37] = 0.9
    belief.update_cells(p, grid, trust=0.5, top=5)
    mass = dense(belief.histogram)
    lifted = belief.lattice.positions()[mass > mass.max() / 2]
    np.testing.assert_allclose(lifted.mean(axis=0), grid.centres[37], atol=1.0)
    factor = 0.5 * 0.9 * grid.n_classes + 0.5
    rest = 0.5 * p[0] * grid.n_classes + 0.5
    expected = factor / (factor + rest * (grid.n_classes - 1) + 0.1 / 0.9 * grid.n_classes)
    assert mass[mass > mass.max() / 2].sum() == pytest.approx(expected, rel=0.05)
    assert total(belief) == pytest.approx(1.0)


@pytest.mark.parametrize("trust", [0.9, 1.0])
def test_a_network_that_says_no_number_or_is_certain_of_another_place_ends_no_belief(trust):
    grid = Grid(32614, 100.0, 1, np.array([[i, j] for i in range(10) for j in range(10)]))
    belief = Belief(Lattice.over_grid(grid, 0.0, 10.0))
    belief.update_cells(np.full(grid.n_classes, np.nan), grid, trust=trust)
    assert total(belief) == pytest.approx(1.0)
    for cell in (3, 77):  # after the first nothing is left of the other
        belief.update_cells(np.eye(grid.n_classes)[cell], grid, trust=trust)
        assert total(belief) == pytest.approx(1.0)


def test_only_what_lives_is_stored_and_it_dies_again():
    """A map of 2,500 km²: a look at one place and a flight of 10 km touch a handful of blocks."""
    belief = Belief(Lattice.over((0.0, 0.0, 50_000.0, 50_000.0)))
    assert belief.lattice.step_m == 25.0
    kernel = gaussian_kernel(np.eye(2) * 5.0**2, 25.0)
    most = 0
    for k in range(200):
        belief.predict((50.0, 0.0), kernel)
        belief.leak(1e-4)
        belief.update([peak_at((10_000.0 + 50.0 * k, 20_000.0))], Weighing(place=0.2))
        most = max(most, len(belief.histogram.blocks))
    assert most <= 12
    mode = modes(belief)[0]
    np.testing.assert_allclose(mode.mean, (10_000.0 + 50.0 * 199, 20_000.0), atol=10.0)
    assert total(belief) == pytest.approx(1.0)


def test_flying_over_the_border_is_flying_off_the_map():
    belief = Belief(lattice_of(), off_map=0.01)
    belief.place((2900.0, 1000.0), np.eye(2) * 400.0)
    for _ in range(10):
        belief.predict((30.0, 0.0), gaussian_kernel(np.eye(2) * 9.0, STEP))
    assert belief.off_map > 0.95


def test_hills_come_best_first_with_their_masses():
    belief = Belief(lattice_of(), off_map=0.0)
    belief.update([peak_at((700.0, 1000.0), 18.0), peak_at((2200.0, 600.0), 16.0)])
    best, second = modes(belief, 2)
    np.testing.assert_allclose(best.mean, (700.0, 1000.0), atol=5.0)
    np.testing.assert_allclose(second.mean, (2200.0, 600.0), atol=5.0)
    assert best.mass > 5 * second.mass > 0.0
    assert best.mass + second.mass <= 1.0
    assert best.radius_m(0.5) < best.radius_m(0.8) and second.radius_m(0.8) == float("inf")


def test_likely_windows_hold_the_hills_and_nothing_far_from_them():
    belief = Belief(lattice_of(), off_map=0.0)
    assert likely_windows(belief, 0.99, 50.0, 1000) is None
    belief.update([peak_at((700.0, 1000.0), 18.0), peak_at((2200.0, 600.0), 18.0)])
    windows = likely_windows(belief, 0.99, 50.0, 1000)
    assert len(windows) == 2
    for place in ((700.0, 1000.0), (2200.0, 600.0)):
        assert any(w <= place[0] <= e and s <= place[1] <= n for w, s, e, n in windows)
    assert max(e - w for w, _, e, _ in windows) < 400.0


def test_overlapping_rectangles_become_one():
    assert joined([(0, 0, 2, 2), (5, 5, 6, 6), (1, 1, 5.5, 5.5)]) == [(0, 0, 6, 6)]


def test_a_lattice_follows_an_irregular_map():
    points = [[100.0 + 200 * i, 100.0 + 200 * j] for i in range(10) for j in range(10) if i < 3 or j < 3]
    grid = Grid.over_points(points, epsg=32614, cell_side_m=200.0, modulus=3)
    lattice = Lattice.over_grid(grid, margin_m=200.0)
    on_map = lattice.on_map
    assert on_map[lattice.cell_of((100.0, 1900.0))] and on_map[lattice.cell_of((1900.0, 100.0))]
    assert on_map[lattice.cell_of((700.0, 1500.0))]  # within the margin
    assert not on_map[lattice.cell_of((1500.0, 1500.0))]
