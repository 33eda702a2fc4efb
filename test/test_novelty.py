"""What of a view is news: how far the drone came, by odometry or by what views show, not how often it looked."""

import numpy as np
import pytest
from registration_support import painted_map
from tracker_support import Drone, tracker_over

from aerial_vpr_cl.localization.motion_model import Step
from aerial_vpr_cl.localization.novelty import SUPPOSED_SPEED_M_S, Novelty
from aerial_vpr_cl.localization.same_ground import way_between_m
from aerial_vpr_cl.localization.states import TRACKING
from aerial_vpr_cl.localization.view import View

FOOTPRINT_M, SIDE_PX = 280.0, 224
KERNEL = np.ones((1, 1))


@pytest.fixture(scope="module")
def satellite(tmp_path_factory):
    return painted_map(tmp_path_factory.mktemp("map"))


def view_at(satellite, point, footprint_m=FOOTPRINT_M, brightness=1.0):
    """The ground around a place."""
    image, _ = satellite.read_patches(np.asarray(point)[None], np.zeros(1), footprint_m, SIDE_PX)
    image = np.clip(image[0] * brightness, 0, 255).astype(np.uint8)
    mask = np.ones(image.shape[:2], bool)
    return View(image, mask, footprint_m / SIDE_PX, np.zeros(2), 10.0, 3.0, 0.05)


def middle_of(satellite):
    west, south, east, north = satellite.bounds
    return np.array([(west + east) / 2.0, (south + north) / 2.0])


@pytest.mark.parametrize("moved_m", [(0.0, 0.0), (20.0, -35.0), (-60.0, 50.0)])
def test_the_way_between_two_views_is_read_off_them_also_if_one_is_darker_and_larger(satellite, moved_m):
    middle = middle_of(satellite)
    found = way_between_m(view_at(satellite, middle), view_at(satellite, middle + moved_m, 300.0, 0.7))
    assert found == pytest.approx(np.array(moved_m), abs=6.0)


def test_views_of_other_ground_and_blank_ones_have_no_way_between_them(satellite):
    middle = middle_of(satellite)
    view = view_at(satellite, middle)
    assert way_between_m(view, view_at(satellite, middle + np.array([900.0, 700.0]))) is None
    assert way_between_m(view, view_at(satellite, middle, brightness=0.0)) is None


def counted(novelty, views, steps):
    """News that all the views together brought after the first."""
    total = 0.0
    for view, step in zip(views, steps):
        novelty.add(step, 1.0)
        total += novelty.weighing(view).place
        novelty.used()
    return total


def begun(view):
    novelty = Novelty(10.0)
    assert novelty.weighing(view).place == 1.0
    novelty.used()
    return novelty


def test_a_drone_that_hovers_for_a_minute_sees_less_than_one_new_view_with_and_without_odometry(satellite):
    rng, middle = np.random.default_rng(0), middle_of(satellite)
    view = view_at(satellite, middle)
    views = [view_at(satellite, middle + rng.normal(0.0, 5.0, 2)) for _ in range(60)]
    swaying = [Step(rng.normal(0.0, 3.0, 2), KERNEL, 3.0, True) for _ in views]
    assert 0.2 < counted(begun(view), views, [None] * 60) < 1.0  # at the speed that is supposed it would be three
    assert 0.1 < counted(begun(view), views, swaying) < 0.7


def test_a_drone_that_flies_on_sees_a_new_view_every_half_footprint(satellite):
    west, south, _, _ = satellite.bounds
    points = [np.array([west + 200.0 + 14.0 * k, south + 400.0]) for k in range(51)]
    views = [view_at(satellite, point) for point in points]
    guided = [Step(np.array([14.0, 0.0]), KERNEL, 14.0, True)] * 50
    assert counted(begun(views[0]), views[1:], guided) == pytest.approx(5.0, abs=0.1)
    assert counted(begun(views[0]), views[1:], [None] * 50) == pytest.approx(5.0, abs=1.5)


def test_where_nothing_tells_of_the_way_a_usual_speed_is_supposed(satellite):
    view = view_at(satellite, middle_of(satellite))
    dark = view_at(satellite, middle_of(satellite), brightness=0.0)
    novelty = begun(view)
    novelty.add(None, 5.0)
    assert novelty.weighing(dark).place == pytest.approx(5.0 * SUPPOSED_SPEED_M_S / (FOOTPRINT_M / 2.0))


def test_a_drone_that_climbs_sees_new_ground(satellite):
    middle = middle_of(satellite)
    views = [view_at(satellite, middle, footprint_m) for footprint_m in (80.0, 120.0, 200.0, 320.0)]
    assert counted(begun(views[0]), views[1:], [None] * 3) > 1.5


def test_a_drone_that_loiters_or_sways_for_minutes_is_followed_all_the_time(satellite):
    """The belief spreads by what odometry may err: some of what is seen again has to count, or it never comes back."""
    for aside_m, turn_deg in ((12.0, 12.0 / 50.0 * 180.0 / np.pi), (3.0, 170.0)):
        tracker, drone = tracker_over(satellite), Drone(satellite)
        states = set()
        for k in range(200):
            motion = drone.fly(30.0) if k < 6 else drone.fly(aside_m, turn_deg)
            tracker.step(drone.stamp_ns, drone.look(), drone.situation(), motion)
            states |= {tracker.state} if k >= 6 else set()
        assert states == {TRACKING}


@pytest.mark.parametrize("has_odometry", [True, False])
def test_a_drone_that_was_in_haze_over_one_place_is_found_again_there(satellite, has_odometry):
    tracker, drone = tracker_over(satellite), Drone(satellite, has_odometry=has_odometry)
    rng = np.random.default_rng(0)
    for k in range(90):
        motion = drone.fly(30.0 if k < 6 else 0.0)
        image = drone.look()
        if 6 <= k < 20:
            image = rng.integers(120, 136, image.shape).astype(np.uint8)
        answer = tracker.step(drone.stamp_ns, image, drone.situation(), motion)
    assert tracker.state == TRACKING and np.hypot(*(answer.position - drone.position)) < answer.radius_m


@pytest.mark.parametrize("has_odometry", [True, False])
def test_a_drone_that_hovers_for_minutes_keeps_its_position(satellite, has_odometry):
    tracker, drone = tracker_over(satellite), Drone(satellite, has_odometry=has_odometry)
    for k in range(156):
        motion = drone.fly(30.0 if k < 6 else 0.0)
        answer = tracker.step(drone.stamp_ns, drone.look(), drone.situation(), motion)
    assert tracker.state == TRACKING and np.hypot(*(answer.position - drone.position)) < answer.radius_m
