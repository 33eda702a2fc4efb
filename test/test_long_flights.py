"""A flight may last for a day: what the tracker and the watch over GNSS keep does not grow with it."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from mission_support import GRID, START_NS
from mission_support import place as place_deg
from registration_support import painted_map, place
from tracker_support import Drone, tracker_over

from aerial_vpr_cl.localization.estimate import Estimate
from aerial_vpr_cl.localization.gnss_watch import AGREE, GnssWatch
from aerial_vpr_cl.mission.gnss import Fix, GnssGates

WARM_UP, FRAMES = 250, 1000
LOOK_EVERY = 25
"""Most frames are black, as that is quick: the belief lives on odometry, becomes vague, is lost and found again."""
MOST_BYTES = 3_000_000
"""A frame is 43 kB: those that stayed somewhere would be 32 MB."""


@pytest.fixture(scope="module")
def satellite(tmp_path_factory):
    return painted_map(tmp_path_factory.mktemp("map"))


def test_nothing_of_a_thousand_frames_stays(satellite):
    tracker, drone = tracker_over(satellite), Drone(satellite, position=place(900.0, 500.0), heading_deg=90.0)
    watch = GnssWatch(tracker.grid.projection, GnssGates(), clock=lambda: drone.stamp_ns / 1e9)
    published, held = 0, []
    tracemalloc.start()
    try:
        for count in range(FRAMES):
            motion = drone.fly(12.0, 2.0)  # a circle of 340 m
            image = drone.look() if count % LOOK_EVERY < 2 else np.zeros((120, 120, 3), np.uint8)
            answer = tracker.step(drone.stamp_ns, image, drone.situation(), motion)
            latitude, longitude = tracker.grid.projection.to_wgs84(drone.position)
            watch.add_fix(Fix(drone.stamp_ns, float(latitude), float(longitude), 0.0, 0, 2.0))
            if isinstance(answer, Estimate):
                published += 1
                watch.add_position(drone.stamp_ns, answer.position, answer.covariance)
            watch.report()
            if count in (WARM_UP, FRAMES - 1):
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert published > FRAMES // 10
    assert held[1] - held[0] < MOST_BYTES


def test_a_receiver_that_is_watched_for_hours_takes_no_more_room():
    seconds = [0.0]
    watch = GnssWatch(GRID.projection, GnssGates(), clock=lambda: seconds[0])
    latitude, longitude = place_deg(0)
    held = []
    tracemalloc.start()
    try:
        for count in range(9000):  # fixes and positions of half an hour at 5 Hz
            seconds[0] = count / 5.0
            stamp_ns = START_NS + count * 200_000_000
            watch.add_fix(Fix(stamp_ns, latitude + 1e-7 * (count % 7), longitude, 0.0, 0, 2.0))
            watch.add_position(stamp_ns, GRID.projection.to_utm(latitude, longitude), np.eye(2) * 64.0)
            if count % 1500 == 1499:
                assert watch.report().state == AGREE
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[-1] - held[2] < 500_000
