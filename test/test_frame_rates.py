"""Nothing depends on how many frames a second come: neither what is frozen, nor what is lost, nor what is a jump."""

import math
from itertools import pairwise

import cv2
import numpy as np
import pytest
from registration_support import painted_map
from tracker_support import Drone, tracker_over

from aerial_vpr_cl.localization.estimate import FROZEN_CAMERA, Estimate, Rejection
from aerial_vpr_cl.localization.image_faults import ImageWatch
from aerial_vpr_cl.localization.motion_model import MotionModel, OdometryWatch
from aerial_vpr_cl.localization.odometry_check import OdometryCheck
from aerial_vpr_cl.localization.states import LOST, TRACKING
from aerial_vpr_cl.mission.situation import Motion

BLANK = np.full((120, 120, 3), 90, np.uint8)


@pytest.fixture(scope="module")
def satellite(tmp_path_factory):
    return painted_map(tmp_path_factory.mktemp("map"))


def fly(tracker, drone, frames, seconds, speed_m_s, image=None):
    """Answers of frames that come so often."""
    answers = []
    for _ in range(frames):
        motion = drone.fly(speed_m_s * seconds)
        drone.stamp_ns += round((seconds - motion.seconds) * 1e9)
        motion = Motion(motion.forward_left_m, motion.turn_deg, seconds)
        seen = drone.look() if image is None else image(drone)
        answers.append(tracker.step(drone.stamp_ns, seen, drone.situation(), motion))
    return answers


def flat(drone):
    """The ground in haze: an eighth of its contrast."""
    return (128.0 + 0.125 * (drone.look() - 128.0)).clip(0, 255).astype(np.uint8)


def test_a_camera_of_thirty_frames_a_second_over_pale_ground_is_not_frozen(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite)
    answers = fly(tracker, drone, 60, 1 / 30, 6.0, flat)
    assert not [one for one in answers if isinstance(one, Rejection) and one.reason == FROZEN_CAMERA]
    assert sum(isinstance(one, Estimate) for one in answers) > 30


@pytest.mark.parametrize("hertz", [1, 30])
def test_a_camera_that_stopped_is_noticed_at_any_rate(hertz):
    watch, ground = ImageWatch(400.0), np.random.default_rng(0).integers(0, 255, (120, 120, 3)).astype(np.uint8)
    smooth = cv2.GaussianBlur(ground, (0, 0), 6.0)
    frozen = [watch.is_frozen(smooth, 6.0 / hertz) for _ in range(5 * hertz)]
    assert frozen[-1] and not any(frozen[: 3 * hertz])


@pytest.mark.parametrize("hertz", [1, 30])
def test_clouds_are_bridged_by_odometry_for_as_long_at_any_rate(satellite, hertz):
    tracker, drone = tracker_over(satellite), Drone(satellite)
    fly(tracker, drone, 6, 2.0, 17.0)
    fly(tracker, drone, 1, 2.0, 2.0)
    assert tracker.state == TRACKING
    answers = fly(tracker, drone, 12 * hertz, 1.0 / hertz, 2.0, lambda _: BLANK)
    assert all(isinstance(one, Estimate) for one in answers)


def test_a_drone_that_hovers_is_not_lost(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite)
    fly(tracker, drone, 6, 2.0, 17.0)
    states = []
    for _ in range(30):
        fly(tracker, drone, 10, 1 / 30, 0.0)
        states.append(tracker.state)
    assert LOST not in states


@pytest.mark.parametrize(("hertz", "jitter_s"), [(10, 0.003), (30, 0.002)])
def test_an_odometry_with_unsteady_stamps_is_no_jump(hertz, jitter_s):
    rng, watch, refused = np.random.default_rng(0), OdometryWatch(), 0
    late_m = rng.normal(0.0, 15.0 * jitter_s, 20 * hertz)  # the way to each frame, by stamps that are off
    for before, after in pairwise(late_m):
        way = np.array([15.0 / hertz + after - before, 0.0])
        refused += watch.believed(Motion(way, 0.0, 1 / hertz), 1 / hertz) is None
    assert refused == 0


def test_a_drone_that_turns_on_the_spot_while_it_flies_on_does_not_jump():
    watch, way = OdometryWatch(), np.array([0.0, 15.0 / 10])  # east
    for k in range(60):
        heading = math.radians(9.0 * k)
        forward, left = (
            np.array([math.sin(heading), math.cos(heading)]),
            np.array([-math.cos(heading), math.sin(heading)]),
        )
        motion = Motion(np.array([forward @ way[::-1], left @ way[::-1]]), 9.0, 0.1)
        assert watch.believed(motion, 0.1) is motion


def test_a_false_odometry_with_unsteady_stamps_is_noticed():
    rng, watch, check, hertz = np.random.default_rng(1), OdometryWatch(), OdometryCheck(0.05, 100.0), 30
    late_m = rng.normal(0.0, 15.0 * 0.002, 20 * hertz)
    for k, (before, after) in enumerate(pairwise(late_m)):
        way = np.array([15.0 / hertz + after - before, 8.0 / hertz])
        check.move(watch.believed(Motion(way, 0.0, 1 / hertz), 1 / hertz), 0.0, 3.0)
        if k % hertz == 0:
            check.see(np.array([0.0, 15.0 / hertz * k]) + rng.normal(0.0, 5.0, 2), np.eye(2) * 25.0)
    assert check.contradicted


def test_a_drone_that_was_blind_for_a_day_may_be_anywhere_on_the_map_and_costs_no_more():
    model = MotionModel(furthest_m=2000.0)
    step = model.step(None, 0.05, 0.0, 180.0, 5.0, 0.0, 86_400.0, 10.0, np.zeros(2))
    assert step.kernel.shape == (401, 401) and step.kernel.sum() == pytest.approx(1.0)
