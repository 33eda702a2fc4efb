"""Missions over the simulated world, the bags they become, and the command that flies them."""

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest
from simulation_support import CAMERA, MISSION, SCENARIO, SMALL

from aerial_vpr_cl import cli
from aerial_vpr_cl.errors import Cancelled, MissionError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.simulation.camera import footprint
from aerial_vpr_cl.simulation.gnss import GnssSettings
from aerial_vpr_cl.simulation.pictures import frame_strip
from aerial_vpr_cl.simulation.scenario import MissionSpec
from aerial_vpr_cl.simulation.sorties import fly, plan, simulate_mission
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld
from aerial_vpr_cl.simulation.world.raster_world import RasterWorld


@pytest.fixture(scope="module")
def world():
    return ProceduralWorld(SMALL)


def test_flying_twice_gives_the_same_frames_and_another_seed_others(world):
    first, second = list(fly(world, MISSION)), list(fly(world, MISSION))
    assert len(first) == 24
    for one, two in zip(first, second):
        assert one.stamp_ns == two.stamp_ns and one.fix == two.fix
        assert np.array_equal(one.image, two.image) and np.array_equal(one.position, two.position)
    other = next(iter(fly(world, dataclasses.replace(MISSION, seed=1))))
    assert not np.allclose(other.position, first[0].position)


def test_a_simulated_mission_reads_back_as_it_was_flown(world, tmp_path):
    spec = dataclasses.replace(MISSION, modality="IR", gnss=GnssSettings(drift_m=0.5, noise_m=0.1))
    sortie = simulate_mission(world, spec, tmp_path / "hop")
    west, south, east, north = world.bounds
    corners = np.array([(x, y) for x in np.arange(west, east, 50) for y in np.arange(south, north, 50)])
    grid = Grid.over_points(corners, epsg=32650, cell_side_m=200, modulus=2)
    mission = read_mission(tmp_path / "hop", grid)
    assert (mission.name, mission.modality, len(mission.frames)) == ("hop", "IR", 24)
    assert np.array_equal(mission.stamps_ns, sortie.flight.stamps_ns)
    assert np.hypot(*(mission.positions - sortie.positions()).T).max() < 4.0
    truth = read_mission(tmp_path / "hop", grid, positions="truth")
    assert np.allclose(truth.positions, sortie.positions(), atol=0.01)
    decoded = mission.frames[3].decode().astype(int)
    assert np.abs(decoded - sortie.frame(3)).mean() < 4.0
    start = np.datetime64("2026-06-01T09:00:00").astype("datetime64[ns]").astype(np.int64)
    assert mission.stamps_ns[0] == start


def test_the_same_mission_is_the_same_bytes(world, tmp_path):
    for folder in ("a", "b"):
        simulate_mission(world, MISSION, tmp_path / folder / "hop")
    files = sorted(path.name for path in (tmp_path / "a" / "hop").iterdir())
    assert files
    for name in files:
        assert (tmp_path / "a" / "hop" / name).read_bytes() == (tmp_path / "b" / "hop" / name).read_bytes()


def test_a_cancelled_simulation_leaves_nothing_and_an_existing_bag_is_kept(world, tmp_path):
    def cancel(phase, done, total, **figures):
        raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        simulate_mission(world, MISSION, tmp_path / "hop", progress=cancel)
    assert not (tmp_path / "hop").exists()
    (tmp_path / "hop").mkdir()
    (tmp_path / "hop" / "mine.txt").write_text("keep")
    with pytest.raises(MissionError, match="exists already"):
        simulate_mission(world, MISSION, tmp_path / "hop")
    assert (tmp_path / "hop" / "mine.txt").exists()


def test_the_camera_never_sees_past_the_border_of_the_world(world):
    camera = dataclasses.replace(CAMERA, tilt_deg=15.0, shake_deg=3.0)
    track = TrackSettings(kind="random", altitude_m=150, altitude_wander_m=10.0)
    sortie = plan(world, MissionSpec(name="rough", frames=120, camera=camera, track=track))
    corners = np.concatenate([footprint(camera, sortie.pose(k)) for k in range(120)])
    west, south, east, north = world.bounds
    assert (corners >= (west, south)).all() and (corners <= (east, north)).all()


def test_simulate_writes_map_bags_and_pictures(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    out, pictures, world_map = tmp_path / "bags", tmp_path / "pictures", tmp_path / "world.tif"
    argv = ["simulate", str(tmp_path / "s.yaml"), "--out", str(out), "--pictures", str(pictures)]
    assert cli.main([*argv, "--world-map", str(world_map), "--raw", "--mission", "two"]) == 0
    assert "two: 30 frames, IR" in capsys.readouterr().out
    assert [path.name for path in out.iterdir()] == ["two"] and (out / "two" / "metadata.yaml").exists()
    assert cv2.imread(str(pictures / "two.png")).shape[0] > 100
    assert RasterWorld(world_map).bounds == (804_000, 4_022_000, 805_200, 4_023_000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --out DIR"),
        (["--out", "x", "--mission", "three"], "no mission 'three' in the scenario; it has one, two"),
        (["--out", "x", "--scale", "0"], "--scale is 0"),
        (["--world-map", "m.tif", "--raster", "r.tif"], "flies over r.tif; give that raster to build-map"),
    ],
)
def test_simulate_refuses_what_it_cannot_do(tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SCENARIO)
    assert cli.main(["simulate", "s.yaml", *options]) == 1
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.yaml"]


def test_a_strip_shows_frames_of_any_shape_side_by_side_and_refuses_none():
    frames = [np.full((48, 64, 3), value, np.uint8) for value in range(0, 200, 10)]
    strip = frame_strip(frames, count=4, height_px=30, caption="JHT-01")
    assert strip.shape == (50, 4 * 43, 3)
    assert strip[30, 5, 0] == 0 and strip[30, 4 * 43 - 10, 0] == 190
    assert frame_strip(frames[:1], count=4, height_px=30).shape == (30, 43, 3)
    with pytest.raises(MissionError, match="no frames to show of JHT-01"):
        frame_strip([], caption="JHT-01")
