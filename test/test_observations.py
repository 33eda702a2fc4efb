"""Observations: what is learnt from a flight is what the map would show, the same way up."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from store_support import jpeg, make_map

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.learning.observations import HEADING_UNKNOWN, OFF_MAP, observations_of
from aerial_vpr_cl.localization.estimate import LOOKS_AWAY
from aerial_vpr_cl.localization.view import ViewSettings
from aerial_vpr_cl.mission.course import with_course_heading
from aerial_vpr_cl.mission.frames import Frame
from aerial_vpr_cl.mission.mission import Mission
from aerial_vpr_cl.mission.situation import Situation

HEIGHT_M = 300.0
CAMERA = CameraModel.from_fov(200, 200, 60.0)
SEEN_M = 2.0 * HEIGHT_M * np.tan(np.radians(30.0))
NORTH_UP = ViewSettings("north_up", 200.0, 64)
AS_SEEN = ViewSettings("as_seen", 200.0, 64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return open_map(make_map(tmp_path_factory.mktemp("observed"), blur_px=6.0, view="north_up"))


def frame(folder, place, heading_deg, number=0, **known) -> Frame:
    """What a level camera sees from a place, and what the drone knows then."""
    (image,), _ = folder.satellite.read_patches(np.array([place]), np.array([heading_deg]), SEEN_M, 200)
    given = {"rotation": from_angles(heading_deg), "heading_sigma_deg": 3.0, "height_m": HEIGHT_M, **known}
    return Frame(10**9 * number, np.array(place), jpeg(image, 95), Situation(CAMERA, **given))


def mission(*frames) -> Mission:
    return Mission(Path("flown"), "flown", "VIS", frames)


def middle(folder):
    return folder.grid.centres.mean(axis=0)


def test_north_up_an_observation_is_what_the_map_shows_there(folder):
    place = middle(folder) + np.array([40.0, -30.0])
    found, refused = observations_of(mission(frame(folder, place, 130.0)), folder.grid, NORTH_UP)
    (image,), _ = folder.satellite.read_patches(np.array([place]), np.zeros(1), 200.0, 64)
    learnt = decode_compressed(found[0].image)
    assert learnt.shape == (64, 64, 3) and not refused
    assert np.abs(learnt.astype(float) - image).mean() < 0.3 * np.abs(image[::-1, ::-1].astype(float) - image).mean()
    assert found[0].position == pytest.approx(place) and found[0].label == folder.grid.class_of([place])[0]


def test_a_tilted_camera_teaches_the_cell_it_shows_and_not_the_one_below(folder):
    place = middle(folder)
    tilted = frame(folder, place, 0.0, rotation=from_angles(0.0, 20.0))
    (found,), _ = observations_of(mission(tilted), folder.grid, NORTH_UP)
    ahead = place + np.array([0.0, HEIGHT_M * np.tan(np.radians(20.0))])
    assert found.position == pytest.approx(ahead, abs=0.5)
    assert found.label == folder.grid.class_of([ahead])[0]


def test_as_seen_a_frame_stays_as_it_was_recorded(folder):
    flown = frame(folder, middle(folder), 130.0)
    (found,), refused = observations_of(mission(flown), folder.grid, AS_SEEN)
    assert found.image == flown.image and not refused
    assert found.position == pytest.approx(flown.position)


def test_frames_without_heading_or_ground_are_left_out_and_counted(folder):
    places = [middle(folder) + np.array([12.0 * step, 0.0]) for step in range(4)]
    unknown = frame(folder, places[0], 0.0, 1, rotation=None, heading_sigma_deg=180.0)
    away = frame(folder, places[1], 0.0, 2, rotation=from_angles(0.0, 80.0))
    outside = replace(frame(folder, places[2], 0.0, 3), position=places[2] + np.array([9000.0, 0.0]))
    good = frame(folder, places[3], 0.0, 4)
    found, refused = observations_of(mission(unknown, away, outside, good), folder.grid, NORTH_UP)
    assert [observation.stamp_ns for observation in found] == [good.stamp_ns]
    assert refused == {HEADING_UNKNOWN: 1, LOOKS_AWAY: 1, OFF_MAP: 1}


def test_a_flight_without_a_single_position_is_refused_with_words(folder):
    with pytest.raises(MissionError, match="no frame has a position on the map"):
        observations_of(mission(), folder.grid, NORTH_UP)


def test_where_no_heading_was_recorded_the_course_over_ground_may_stand_in(folder):
    places = [middle(folder) + np.array([15.0 * step, 0.0]) for step in range(-2, 3)]
    frames = [
        frame(folder, place, 90.0, number, rotation=None, heading_sigma_deg=180.0)
        for number, place in enumerate(places)
    ]
    with pytest.raises(MissionError, match=HEADING_UNKNOWN):
        observations_of(mission(*frames), folder.grid, NORTH_UP)
    found, _ = observations_of(with_course_heading(mission(*frames)), folder.grid, NORTH_UP)
    assert len(found) >= 3
    (image,), _ = folder.satellite.read_patches(np.array([found[1].position]), np.zeros(1), 200.0, 64)
    learnt = decode_compressed(found[1].image).astype(float)
    assert np.abs(learnt - image).mean() < 0.5 * np.abs(learnt - np.rot90(image)).mean()
