"""From a simulated drone's instruments through a bag to the view: it lies on the map where it says it does."""

import cv2
import numpy as np
import pytest

from aerial_vpr_cl.images import decode_compressed
from aerial_vpr_cl.knowledge.map_folder import build_map
from aerial_vpr_cl.learning.observations import observations_of
from aerial_vpr_cl.localization.view import ViewSettings
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.satellite.patches import PatchSettings
from aerial_vpr_cl.simulation.camera import CameraSettings
from aerial_vpr_cl.simulation.scenario import MissionSpec
from aerial_vpr_cl.simulation.sensors import InstrumentSettings
from aerial_vpr_cl.simulation.sorties import simulate_mission
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

PERFECT = InstrumentSettings(
    heading_noise_deg=0.0, heading_bias_deg=0.0, tilt_noise_deg=0.0, height_noise=0.0, odometry_noise=0.0
)
MISSION = MissionSpec(
    name="turning",
    frames=16,
    camera=CameraSettings(width_px=160, height_px=120, tilt_deg=12.0, shake_deg=3.0),
    track=TrackSettings(kind="random", altitude_m=250.0, spacing_m=70.0),
    sensors=PERFECT,
)
VIEWS = ViewSettings("north_up", 160.0, 80)


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """A flight that turns and sways with a camera that looks ahead, and the map of the same day."""
    folder = tmp_path_factory.mktemp("flown")
    world = ProceduralWorld(WorldSettings(seed=5, width_m=1600, height_m=1400, resolution_m=2))
    world.write_map(folder / "world.tif", MISSION.appearance)
    simulate_mission(world, MISSION, folder / "bag")
    built = build_map(folder / "world.tif", folder / "store", PatchSettings(cell_side_m=200.0, footprint_m=160.0))
    mission = read_mission(folder / "bag", built.grid, positions="truth")
    return built, mission, observations_of(mission, built.grid, VIEWS).observations


def grey(image):
    return cv2.cvtColor(image, cv2.COLOR_RGB2GRAY).astype(np.float32)


def shifts_m(built, observations):
    """How far, in metres, each view has to be moved to lie on the map as the map has it."""
    window = cv2.createHanningWindow((VIEWS.size_px, VIEWS.size_px), cv2.CV_32F)
    positions = np.array([observation.position for observation in observations])
    patches, _ = built.satellite.read_patches(positions, np.zeros(len(positions)), VIEWS.footprint_m, VIEWS.size_px)
    moves = [
        cv2.phaseCorrelate(grey(decode_compressed(observation.image)), grey(patch), window)[0]
        for observation, patch in zip(observations, patches)
    ]
    return np.hypot(*np.array(moves).T) * VIEWS.metres_per_px


def test_every_view_lies_on_the_map_within_a_few_metres(flown):
    built, _, observations = flown
    assert len(observations) >= 12
    assert np.median(shifts_m(built, observations)) < 3.0
    assert (shifts_m(built, observations) < 6.0).mean() > 0.9


def test_the_view_of_a_tilted_camera_lies_ahead_of_the_drone(flown):
    _, mission, observations = flown
    positions = {frame.stamp_ns: frame.position for frame in mission.frames}
    ahead = [np.hypot(*(observation.position - positions[observation.stamp_ns])) for observation in observations]
    assert np.median(ahead) == pytest.approx(250.0 * np.tan(np.radians(12.0)), rel=0.35)


def test_views_that_were_turned_the_wrong_way_would_not(flown):
    built, _, observations = flown
    window = cv2.createHanningWindow((VIEWS.size_px, VIEWS.size_px), cv2.CV_32F)
    positions = np.array([observation.position for observation in observations])
    patches, _ = built.satellite.read_patches(positions, np.full(len(positions), 180.0), VIEWS.footprint_m, 80)
    strengths = [
        cv2.phaseCorrelate(grey(decode_compressed(observation.image)), grey(patch), window)[1]
        for observation, patch in zip(observations, patches)
    ]
    assert np.median(strengths) < 0.2
