"""A flight is followed over the map: found, corrected, lost and found again, and never confidently wrong."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from registration_support import painted_map, place
from tracker_support import Drone, tracker_over

from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.localization.estimate import (
    BLANK_IMAGE,
    BLIND,
    FROZEN_CAMERA,
    LOOKS_AWAY,
    OTHER_CAMERA,
    SAME_IMAGE,
    SAME_MOMENT,
    Estimate,
    Rejection,
)
from aerial_vpr_cl.localization.motion_model import OdometryWatch
from aerial_vpr_cl.localization.proposal import Proposal
from aerial_vpr_cl.localization.states import OFF_MAP, SEARCHING, TRACKING
from aerial_vpr_cl.mission.situation import Motion


@pytest.fixture(scope="module")
def satellite(tmp_path_factory):
    return painted_map(tmp_path_factory.mktemp("map"))


def frame(tracker, drone, motion=None, image=None):
    return tracker.step(drone.stamp_ns, drone.look() if image is None else image, drone.situation(), motion)


def follow(tracker, drone, frames, forward_m=35.0, turn_deg=0.0):
    """Answers and errors in metres (NaN: none) of a flight."""
    answers, errors = [], []
    for _ in range(frames):
        answers.append(frame(tracker, drone, drone.fly(forward_m, turn_deg)))
        given = isinstance(answers[-1], Estimate)
        errors.append(np.hypot(*(answers[-1].position - drone.position)) if given else np.nan)
    return answers, np.array(errors)


def found(satellite, **drone):
    """A tracker that has found its drone."""
    tracker, flying = tracker_over(satellite), Drone(satellite, **drone)
    frame(tracker, flying)
    follow(tracker, flying, 5)
    assert tracker.state == TRACKING
    return tracker, flying


def test_a_cold_start_finds_the_drone_and_keeps_it(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite, compass_error_deg=5.0, height_error=-0.06)
    assert isinstance(frame(tracker, drone), Rejection)
    assert tracker.state == SEARCHING
    answers, errors = follow(tracker, drone, 20, turn_deg=4.0)
    given = ~np.isnan(errors)
    assert given[5:].all()
    assert errors[given].max() < 40.0
    last = answers[-1]
    assert last.state == TRACKING and last.confidence >= 0.99
    assert last.radius_m < 100.0 and np.linalg.eigvalsh(last.covariance).min() > 9.0
    assert last.turn_deg == pytest.approx(-5.0, abs=2.5)
    assert last.scale_correction == pytest.approx(1.0 / 0.94, abs=0.03)


def test_a_backward_compass_is_noticed_and_corrected(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite, compass_error_deg=180.0)
    frame(tracker, drone)
    answers, errors = follow(tracker, drone, 18, forward_m=25.0, turn_deg=6.0)
    assert np.nanmax(errors) < 60.0
    assert isinstance(answers[-1], Estimate)
    assert abs(answers[-1].turn_deg) == pytest.approx(180.0, abs=5.0)


def test_a_drone_without_a_compass_is_followed(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite, has_heading=False)
    frame(tracker, drone)
    answers, errors = follow(tracker, drone, 14, turn_deg=5.0)
    assert np.nanmax(errors) < 60.0
    assert isinstance(answers[-1], Estimate)


def test_a_drone_without_odometry_is_followed(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite, has_odometry=False)
    frame(tracker, drone)
    answers, errors = follow(tracker, drone, 14)
    assert np.nanmax(errors) < 60.0
    assert isinstance(answers[-1], Estimate)


def test_a_kidnapped_drone_is_missed_and_found_again(satellite):
    tracker, drone = found(satellite)
    drone.position = place(1500.0, 1100.0)
    drone.heading_deg = -60.0
    _, errors = follow(tracker, drone, 14)
    assert not (errors > 100.0).any()
    assert errors[-1] < 40.0


@pytest.mark.parametrize("aside_m", [60.0, 130.0, -130.0, 250.0])
def test_an_odometry_that_jumps_is_not_followed(satellite, aside_m):
    tracker, drone = found(satellite)
    motion = drone.fly(25.0)
    aside = np.array([0.0, aside_m])
    answers = [frame(tracker, drone, replace(motion, forward_left_m=motion.forward_left_m + aside))]
    errors = [np.hypot(*(answers[0].position - drone.position)) if isinstance(answers[0], Estimate) else np.nan]
    _, later = follow(tracker, drone, 10, forward_m=25.0)
    assert np.nanmax([*errors, *later]) < 80.0
    assert later[-1] < 40.0


def test_a_motion_that_no_drone_can_make_is_not_believed_once():
    watch, steady = OdometryWatch(), Motion(np.array([30.0, 0.0]), 0.0, 2.0)
    leap = Motion(np.array([30.0, 130.0]), 0.0, 2.0)
    assert watch.believed(None, 2.0) is None
    assert watch.believed(leap, 2.0) is leap  # nothing is known yet
    watch.reset()
    assert [watch.believed(motion, 2.0) for motion in (steady, leap, leap, steady)] == [steady, None, leap, None]
    braking = Motion(np.array([0.0, 0.0]), 0.0, 2.0)
    watch.reset()
    assert [watch.believed(motion, 2.0) for motion in (steady, braking)] == [steady, braking]


@pytest.mark.parametrize("forward_m", [8.0, 24.0])
def test_an_odometry_that_stands_still_is_believed_no_more_once_the_views_contradict_it(satellite, forward_m):
    tracker, drone = found(satellite)
    drone.odometry_factor = 0.0
    answers, errors = follow(tracker, drone, 40, forward_m)
    assert np.nanmax(errors) < 60.0
    assert all(isinstance(answer, Estimate) for answer in answers[-5:])
    assert np.nanmax(errors[-10:]) < 30.0
    drone.odometry_factor = 1.03
    answers, errors = follow(tracker, drone, 5, forward_m)
    assert all(isinstance(answer, Estimate) for answer in answers) and errors.max() < 30.0


@pytest.mark.parametrize(("step_m", "has_heading"), [(35.0, True), (7.5, True), (35.0, False)])
def test_an_odometry_that_went_another_way_is_believed_again_when_it_goes_with_the_views(
    satellite, step_m, has_heading
):
    tracker, drone = found(satellite, has_heading=has_heading)
    drone.odometry_factor = -1.0
    _, errors = follow(tracker, drone, 8, 35.0, 8.0)
    assert not tracker.odometry_is_believed and not (errors > 100.0).any()
    drone.odometry_factor = 1.03
    for _ in range(round(600.0 / step_m)):
        follow(tracker, drone, 1, step_m, 15.0 * step_m / 35.0)
        if tracker.odometry_is_believed:
            break
    assert tracker.odometry_is_believed


def test_one_image_of_another_place_casts_no_doubt_on_odometry(satellite):
    tracker, drone = found(satellite)
    motion, here = drone.fly(35.0), drone.position
    drone.position = here + np.array([0.0, 100.0])
    aside = drone.look()
    drone.position = here
    frame(tracker, drone, motion, image=aside)
    for _ in range(6):
        follow(tracker, drone, 1, 35.0, 8.0)
        assert tracker.odometry_is_believed


def test_the_same_image_again_is_no_evidence(satellite):
    """A drone that stands still: the belief must not grow surer of the place it first thought of."""
    tracker, drone = tracker_over(satellite, min_confidence=1.0), Drone(satellite)
    image = drone.look()
    frame(tracker, drone, image=image)
    first = 1.0 - tracker.belief.off_map
    for _ in range(20):
        frame(tracker, drone, drone.fly(0.0), image=image)
    assert 1.0 - tracker.belief.off_map <= first + 1e-6


def test_a_frozen_camera_is_named_and_not_believed(satellite):
    tracker, drone = found(satellite)
    image = drone.look()
    frame(tracker, drone, drone.fly(35.0), image=image)
    answers = [frame(tracker, drone, drone.fly(35.0), image=image) for _ in range(6)]
    assert [answer.reason for answer in answers if isinstance(answer, Rejection)][-1] == FROZEN_CAMERA
    assert not isinstance(answers[-1], Estimate)


def with_skids(image):
    """Landing gear in the picture."""
    (height, width), image = image.shape[:2], image.copy()
    for start, end in (((0.18, 1.0), (0.30, 0.62)), ((0.82, 1.0), (0.70, 0.62)), ((0.05, 0.85), (0.95, 0.85))):
        ends = [(round(x * width), round(y * height)) for x, y in (start, end)]
        cv2.line(image, *ends, (15, 15, 15), 5)
    return image


def test_landing_gear_over_fog_is_not_laid_on_the_map_as_ground(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite, position=place(420.0, 600.0), heading_deg=85.0)
    rng, answers = np.random.default_rng(0), []
    for k in range(30):
        fog = rng.normal(128.0, 6.0, drone.look().shape).clip(0, 255).astype(np.uint8)
        answers.append(frame(tracker, drone, drone.fly(12.0) if k else None, image=with_skids(fog)))
    assert not any(isinstance(answer, Estimate) for answer in answers)


def test_landing_gear_over_ground_with_structure_does_no_harm(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite)
    answers = [frame(tracker, drone, drone.fly(20.0), image=with_skids(drone.look())) for _ in range(25)]
    assert sum(isinstance(answer, Estimate) for answer in answers) >= 15 and tracker.state == TRACKING


def test_blank_images_are_bridged_by_odometry_for_a_while(satellite):
    tracker, drone = found(satellite)
    blank = np.full((120, 120, 3), 90, np.uint8)
    answers = [frame(tracker, drone, drone.fly(10.0), image=blank) for _ in range(3)]
    assert all(isinstance(answer, Estimate) for answer in answers)
    assert answers[0].radius_m < answers[-1].radius_m
    assert np.hypot(*(answers[-1].position - drone.position)) < answers[-1].radius_m
    tracker.relocalize()
    answer = frame(tracker, drone, drone.fly(10.0), image=blank)
    assert isinstance(answer, Rejection) and (answer.reason, answer.state) == (BLANK_IMAGE, SEARCHING)


UNSEEN = {
    "blank": lambda drone: (np.full((120, 120, 3), 90, np.uint8), drone.situation()),
    "the same again": lambda drone: (None, drone.situation()),
    "looking away": lambda drone: (drone.look(), replace(drone.situation(), rotation=from_angles(70.0, 80.0, 0.0))),
    "of another camera": lambda drone: (drone.look()[:, :60], drone.situation()),
}


REASON_OF = {
    "blank": BLANK_IMAGE,
    "the same again": SAME_IMAGE,
    "looking away": LOOKS_AWAY,
    "of another camera": OTHER_CAMERA,
}


@pytest.mark.parametrize("what", UNSEEN)
@pytest.mark.parametrize("seconds", [0.2, 2.0])
def test_without_odometry_a_drone_that_sees_nothing_says_nothing(satellite, what, seconds):
    """It flew on or it stopped: nobody knows."""
    tracker, drone = tracker_over(satellite), Drone(satellite, has_odometry=False)
    frame(tracker, drone)
    answers, _ = follow(tracker, drone, 14)
    assert isinstance(answers[-1], Estimate)
    last = drone.look()
    frame(tracker, drone, drone.fly(0.0), image=last)
    for _ in range(8):
        drone.stamp_ns += int(seconds * 1e9)
        image, situation = UNSEEN[what](drone)
        answer = tracker.step(drone.stamp_ns, last if image is None else image, situation)
        assert isinstance(answer, Rejection) and answer.reason in (REASON_OF[what], answer.state), answer


def test_flying_off_the_map_is_said(satellite):
    tracker, drone = found(satellite)
    answers = []
    for _ in range(45):
        motion = drone.fly(60.0)
        inside = drone.position[0] < place(2100.0, 0.0)[0]
        image = drone.look() if inside else np.random.default_rng(1).integers(0, 255, (120, 120, 3)).astype(np.uint8)
        answers.append(frame(tracker, drone, motion, image=image))
    assert tracker.state == OFF_MAP
    assert all(isinstance(answer, Rejection) for answer in answers[-8:])


def test_time_that_jumps_back_or_stands_still_begins_anew_or_waits(satellite):
    tracker, drone = found(satellite)
    again = frame(tracker, drone)
    assert isinstance(again, Rejection) and again.reason == SAME_MOMENT
    assert tracker.state == TRACKING
    drone.stamp_ns -= 60_000_000_000
    frame(tracker, drone)
    assert tracker.state == SEARCHING
    follow(tracker, drone, 5)
    assert tracker.state == TRACKING
    drone.stamp_ns += 3600_000_000_000
    frame(tracker, drone)
    assert tracker.state == SEARCHING


def test_an_operator_can_say_where_the_drone_is_and_be_wrong(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite)
    tracker.initialize(drone.position + 15.0, np.eye(2) * 30.0**2)
    frame(tracker, drone)
    answer = frame(tracker, drone, drone.fly(25.0))
    assert isinstance(answer, Estimate) and np.hypot(*(answer.position - drone.position)) < 40.0
    tracker.initialize(place(1600.0, 1200.0), np.eye(2) * 30.0**2)
    _, errors = follow(tracker, drone, 14, forward_m=25.0)
    assert not (errors > 100.0).any()
    assert errors[-1] < 40.0


def test_without_a_memory_every_frame_that_proves_itself_is_answered(satellite):
    tracker, drone = tracker_over(satellite, use_belief=False), Drone(satellite)
    answers, errors = follow(tracker, drone, 3)
    assert any(isinstance(answer, Estimate) for answer in answers)
    assert np.nanmax(errors) < 60.0


def test_a_camera_alone_is_rather_silent_than_wrong(satellite):
    tracker = tracker_over(satellite)
    drone = Drone(satellite, has_heading=False, has_height=False, has_odometry=False)
    answers, _ = follow(tracker, drone, 6)
    assert [answer.reason for answer in answers] == [BLIND] * 6


def test_a_network_that_is_sure_of_the_wrong_cell_proves_nothing(satellite):
    certain = np.zeros(tracker_over(satellite).grid.n_classes)
    certain[-1] = 1.0
    tracker = tracker_over(satellite, lambda image, known: Proposal(certain, np.zeros(2)))
    drone = Drone(satellite, has_heading=False, has_height=False, has_odometry=False)
    answers, _ = follow(tracker, drone, 12)
    assert [answer.reason for answer in answers] == [BLIND] * 12


def test_a_drone_is_found_on_a_large_map_whose_network_never_names_its_cell(satellite):
    elsewhere = np.zeros(tracker_over(satellite).grid.n_classes)
    elsewhere[-1] = 1.0
    tracker = tracker_over(
        satellite, lambda image, known: Proposal(elsewhere, np.zeros(2)), search_km2=0.0, top_cells=1
    )
    answers, errors = follow(tracker, Drone(satellite), 12)
    assert isinstance(answers[-1], Estimate)
    assert not (errors > 60.0).any()
