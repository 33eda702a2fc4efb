"""The simulated world, the camera over it, scenarios, and the bags they become."""

import dataclasses
from pathlib import Path

import cv2
import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from aerial_vpr_cl import cli
from aerial_vpr_cl.errors import AerialVprError, Cancelled, MissionError, SettingsError
from aerial_vpr_cl.geo.grid import Grid
from aerial_vpr_cl.geo.projection import Projection
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.mission.split import split_halves
from aerial_vpr_cl.simulation.camera import CameraSettings, Pose, footprint, reach_m, take_picture
from aerial_vpr_cl.simulation.flights import box_of, plan_flight
from aerial_vpr_cl.simulation.gnss import GnssSettings
from aerial_vpr_cl.simulation.pictures import frame_strip
from aerial_vpr_cl.simulation.scenario import MissionSpec, load_scenario
from aerial_vpr_cl.simulation.sorties import fly, plan, simulate_mission
from aerial_vpr_cl.simulation.tracks import TrackSettings
from aerial_vpr_cl.simulation.world.appearance import SEASONS, Appearance, scene_of, sun_of
from aerial_vpr_cl.simulation.world.ground import ArrayGround
from aerial_vpr_cl.simulation.world.infrared import temperatures
from aerial_vpr_cl.simulation.world.layers import Ground
from aerial_vpr_cl.simulation.world.procedural import ProceduralWorld
from aerial_vpr_cl.simulation.world.raster_world import RasterWorld
from aerial_vpr_cl.simulation.world.terrain import WorldSettings

DEMO = Path(__file__).parent.parent / "config" / "scenarios" / "demo.yaml"
SMALL = WorldSettings(seed=5, width_m=1200, height_m=1000, resolution_m=4, west=804_000, south=4_022_000)
CAMERA = CameraSettings(width_px=64, height_px=48, hfov_deg=60)
MISSION = MissionSpec(name="hop", frames=24, camera=CAMERA, track=TrackSettings(altitude_m=150))


@pytest.fixture(scope="module")
def world():
    return ProceduralWorld(SMALL)


# The world and how it looks


def test_the_same_seed_makes_the_same_world_and_another_seed_another(world):
    again, other = ProceduralWorld(SMALL), ProceduralWorld(dataclasses.replace(SMALL, seed=6))
    assert np.array_equal(world.render(Appearance()), again.render(Appearance()))
    assert (world.layers.ground != other.layers.ground).mean() > 0.3


def test_a_world_has_everything_one_sees_from_above():
    layers = ProceduralWorld(WorldSettings(seed=3, resolution_m=8)).layers
    shares = np.bincount(layers.ground.ravel(), minlength=len(Ground)) / layers.ground.size
    for kind in (Ground.FIELD, Ground.FOREST, Ground.WATER, Ground.ROAD, Ground.YARD, Ground.PAVED):
        assert shares[kind] > 0.01, kind
    assert len(layers.building_spare) > 300
    assert 0.02 < (layers.building > 0).mean() < 0.3
    assert (layers.tree_m > 0).mean() > 0.05


def test_places_of_the_world_differ_from_each_other(world):
    image = world.render(Appearance())
    cells = [image[r : r + 50, c : c + 50].astype(float) for r in range(0, 200, 50) for c in range(0, 250, 50)]
    flat = np.stack([cv2.GaussianBlur(cell, (0, 0), 2.0).ravel() for cell in cells])
    flat = (flat - flat.mean(axis=1, keepdims=True)) / flat.std(axis=1, keepdims=True)
    likeness = flat @ flat.T / flat.shape[1]
    assert (likeness - np.eye(len(cells))).max() < 0.8


@pytest.mark.parametrize("season", [season for season in SEASONS if season != "summer"])
def test_every_season_looks_different_from_summer(world, season):
    image, map_image = world.render(Appearance(season=season, hour=12)), world.render(Appearance(hour=12))
    assert image.shape == (250, 300, 3) and image.dtype == np.uint8
    assert np.abs(image.astype(int) - map_image).mean() > 8.0
    assert 40 < image.mean() < 215


def test_change_alters_the_share_of_buildings_it_says_and_its_seed_decides_which(world):
    def buildings(**options):
        day = Appearance(**options)
        scene = scene_of(world.layers, day, sun_of(day, 36.0), SMALL.resolution_m, SMALL.seed)
        return set(np.unique(scene.building)) - {0}

    then, now, elsewhere = buildings(), buildings(change=0.3), buildings(change=0.3, change_seed=1)
    drawn = np.unique(world.layers.building)[1:]
    assert then == {number for number in drawn if not world.layers.building_spare[number]}
    assert 0.15 < len(then ^ now) / len(drawn) < 0.45
    assert now - then  # something new was built, too
    assert now != elsewhere


def test_shadows_fall_away_from_the_sun():
    layers = ProceduralWorld(dataclasses.replace(SMALL, town_share=0.0, wood_share=0.0)).layers
    ground = np.full((60, 60), Ground.MEADOW, np.uint8)
    building = np.zeros((60, 60), np.int32)
    building[28:32, 28:32] = 1
    layers = dataclasses.replace(
        layers,
        ground=ground,
        parcel=np.zeros((60, 60), np.int32),
        second_half=np.zeros((60, 60), bool),
        building=building,
        tree_m=np.zeros((60, 60), np.float32),
        building_height_m=np.array([0.0, 20.0], np.float32),
        building_spare=np.zeros(2, bool),
    )
    day = Appearance(sun_azimuth_deg=90.0, sun_elevation_deg=45.0)
    shadow = scene_of(layers, day, sun_of(day, 36.0), 2.0, 1).shadow
    assert shadow[30, 20:27].mean() > 0.8  # 20 m to the west
    assert shadow[30, :16].max() < 0.05 and shadow[30, 33:].max() < 0.05 and shadow[:24].max() < 0.05


def test_the_sun_stands_in_the_south_at_noon_and_in_the_east_in_the_morning():
    noon, morning = sun_of(Appearance(hour=12), 36.0), sun_of(Appearance(hour=7), 36.0)
    assert noon.azimuth_deg == pytest.approx(180.0) and noon.elevation_deg == pytest.approx(76.4, abs=1.0)
    assert 60 < morning.azimuth_deg < 100 and morning.elevation_deg < 35
    assert not sun_of(Appearance(hour=0), 36.0).is_up


def test_a_visible_camera_at_night_is_refused(world):
    with pytest.raises(SettingsError, match=r"hour 23 in summer.*choose an hour of daylight"):
        world.render(Appearance(hour=23))


def test_water_is_warm_at_night_and_cool_by_day_and_roads_the_other_way(world):
    def mean_by_class(hour):
        day = Appearance(hour=hour)
        sun = sun_of(day, 36.0)
        scene = scene_of(world.layers, day, sun, SMALL.resolution_m, SMALL.seed)
        celsius = temperatures(world.layers, scene, day, sun, SMALL.resolution_m, SMALL.seed)
        return {kind: float(celsius[(scene.ground == kind) & (scene.tree_m == 0)].mean()) for kind in Ground}

    night, noon = mean_by_class(3), mean_by_class(14)
    assert night[Ground.WATER] > night[Ground.FIELD] + 2 and night[Ground.WATER] > night[Ground.MEADOW] + 2
    assert noon[Ground.WATER] < noon[Ground.FIELD] - 2
    assert noon[Ground.ROAD] > noon[Ground.MEADOW] + 2


def test_infrared_is_no_grey_copy_of_the_visible(world):
    infrared = world.render(Appearance(hour=22), "IR")
    grey = cv2.cvtColor(world.render(Appearance(hour=10)), cv2.COLOR_RGB2GRAY)
    assert np.array_equal(infrared[..., 0], infrared[..., 1]) and np.array_equal(infrared[..., 0], infrared[..., 2])
    assert abs(np.corrcoef(infrared[..., 0].ravel(), grey.ravel())[0, 1]) < 0.6
    by_day = world.render(Appearance(hour=14), "IR")
    assert np.corrcoef(infrared[..., 0].ravel(), by_day[..., 0].ravel())[0, 1] < 0.8
    assert infrared.std() > 25


def test_the_satellite_map_lies_where_the_world_lies(world, tmp_path):
    path = tmp_path / "maps" / "world.tif"
    world.write_map(path, Appearance())
    with rasterio.open(path) as raster:
        assert raster.crs.to_epsg() == 32650
        assert tuple(raster.bounds) == world.bounds == (804_000, 4_022_000, 805_200, 4_023_000)
        assert raster.res == (4.0, 4.0)
        assert np.array_equal(np.moveaxis(raster.read(), 0, 2), world.render(Appearance()))


# The camera


def marked_ground():
    """Grey ground of 400 × 400 m at 1 m with a red square north and a green square east of the centre."""
    image = np.full((400, 400, 3), 90, np.uint8)
    image[95:106, 195:206] = (255, 0, 0)
    image[195:206, 295:306] = (0, 255, 0)
    return ArrayGround(image, 1000.0, 2400.0, 1.0, Projection(32650)), np.array([1200.0, 2200.0])


def middle_of(image, channel):
    others = np.delete(image.astype(int), channel, axis=2).max(axis=2)
    rows, columns = np.nonzero(image[..., channel].astype(int) - others > 60)
    return columns.mean(), rows.mean()


def test_the_top_of_the_frame_points_along_the_heading():
    ground, centre = marked_ground()
    camera = CameraSettings(width_px=160, height_px=160, hfov_deg=90)
    north_up = take_picture(ground, camera, Pose(centre, 150.0, 0.0))  # sees 300 m, 1.875 m a pixel
    assert middle_of(north_up, 0) == pytest.approx((79.5, 79.5 - 100 / 1.875), abs=0.6)
    assert middle_of(north_up, 1) == pytest.approx((79.5 + 100 / 1.875, 79.5), abs=0.6)
    east_up = take_picture(ground, camera, Pose(centre, 150.0, 90.0))
    assert middle_of(east_up, 1) == pytest.approx((79.5, 79.5 - 100 / 1.875), abs=0.6)


def test_footprint_follows_from_height_and_field_of_view():
    camera = CameraSettings(width_px=320, height_px=240, hfov_deg=60)
    corners = footprint(camera, Pose(np.zeros(2), 300.0, 0.0))
    width = 2 * 300 * np.tan(np.radians(30))
    expected = np.array([[-1, 0.75], [1, 0.75], [1, -0.75], [-1, -0.75]]) * width / 2
    assert np.allclose(corners, expected)


def test_tilt_looks_ahead_unless_the_view_is_centred():
    ahead = CameraSettings(tilt_deg=20.0, shake_deg=0.0)
    pose = Pose(np.zeros(2), 300.0, 90.0)
    corners = footprint(ahead, pose)
    assert corners[:, 0].mean() > 300 * np.tan(np.radians(20)) and abs(corners[:, 1].mean()) < 1e-6
    centred = footprint(dataclasses.replace(ahead, centred=True), pose)
    assert np.allclose(corners - centred, [300 * np.tan(np.radians(20)), 0.0])
    assert reach_m(ahead, 300.0) == pytest.approx(np.hypot(*corners.T).max())


def test_a_tilted_picture_shows_what_its_homography_says():
    ground, centre = marked_ground()
    camera = CameraSettings(width_px=160, height_px=160, hfov_deg=80, tilt_deg=25.0)
    image = take_picture(ground, camera, Pose(centre, 110.0, 0.0))
    upward = np.degrees(np.arctan(100 / 110)) - 25.0  # the red square stands this far above the optical axis
    focal = 80 / np.tan(np.radians(40))
    assert middle_of(image, 0) == pytest.approx((79.5, 79.5 - focal * np.tan(np.radians(upward))), abs=0.8)


def test_fine_detail_averages_out_instead_of_aliasing():
    stripes = np.zeros((800, 800, 3), np.uint8)
    stripes[:, ::2] = 200
    ground = ArrayGround(stripes, 0.0, 800.0, 1.0, Projection(32650))
    camera = CameraSettings(width_px=64, height_px=64, hfov_deg=90)
    for heading in (0.0, 37.0):
        image = take_picture(ground, camera, Pose(np.array([400.0, 400.0]), 250.0, heading))
        assert image.std() < 6.0 and image.mean() == pytest.approx(100, abs=3)


# Missions


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


def write_raster(path):
    """Four bands of 600 × 500 m at 5 m: red, green, blue, and a near infrared that looks different."""
    rng = np.random.default_rng(0)
    bands = np.stack([cv2.GaussianBlur(rng.integers(0, 255, (100, 120), np.uint8), (0, 0), 2) for _ in range(4)])
    profile = {"driver": "GTiff", "width": 120, "height": 100, "count": 4, "dtype": "uint8", "crs": "EPSG:26914"}
    with rasterio.open(
        path, "w", transform=from_origin(485_900, 5_209_000, 5, 5), photometric="rgb", **profile
    ) as file:
        file.write(bands)
    return np.moveaxis(bands, 0, 2)


def test_a_raster_is_flown_over_in_the_bands_asked_for(tmp_path):
    bands = write_raster(tmp_path / "2015.tif")
    still = CameraSettings(width_px=40, height_px=40, hfov_deg=90)
    pose = Pose(np.array([486_200.0, 5_208_750.0]), 100.0)  # 200 m at 5 m a pixel: pixels of the raster itself
    visible = take_picture(RasterWorld(tmp_path / "2015.tif"), still, pose)
    infrared = take_picture(RasterWorld(tmp_path / "2015.tif", bands=[4]), still, pose)
    assert np.abs(visible.astype(int) - bands[30:70, 40:80, :3]).max() <= 2
    assert np.abs(infrared.astype(int) - bands[30:70, 40:80, 3:]).max() <= 2


# Scenarios


def test_the_demo_holds_the_missions_of_table_1():
    missions = load_scenario(DEMO).missions
    sequence = [mission for mission in missions if mission.role == "sequence"]
    held_out = [mission for mission in missions if mission.role == "held_out"]
    assert (len(missions), len(sequence), len(held_out)) == (21, 10, 11)
    assert sum(mission.frames for mission in sequence) == 2691
    assert sum(mission.frames for mission in held_out if mission.modality == "VIS") == 2146
    assert sum(mission.frames for mission in held_out if mission.modality == "IR") == 602
    assert {mission.name for mission in sequence if mission.modality == "IR"} == {"JHT-05", "TD-13-seq"}
    assert all(mission.track.kind == "out_and_back" for mission in sequence)
    assert {mission.track.kind for mission in held_out} == {"survey", "transit", "random", "out_and_back"}
    starts = [mission.start_ns for mission in missions]
    assert len(set(starts)) == 21


def test_every_demo_mission_can_be_flown_at_any_scale():
    scenario = load_scenario(DEMO)
    coarse = ProceduralWorld(dataclasses.replace(scenario.world, resolution_m=16))
    for mission in scenario.missions:
        frame = next(iter(fly(coarse, mission.scaled(0.1)))).image
        assert frame.shape[:2] == (mission.camera.height_px, mission.camera.width_px)
        assert frame.std() > 4.0


def test_the_camera_never_sees_past_the_border_of_the_world(world):
    camera = dataclasses.replace(CAMERA, tilt_deg=15.0, shake_deg=3.0)
    track = TrackSettings(kind="random", altitude_m=150, altitude_wander_m=10.0)
    sortie = plan(world, MissionSpec(name="rough", frames=120, camera=camera, track=track))
    corners = np.concatenate([footprint(camera, sortie.pose(k)) for k in range(120)])
    west, south, east, north = world.bounds
    assert (corners >= (west, south)).all() and (corners <= (east, north)).all()


@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_the_tested_half_of_a_sequence_mission_flies_over_cells_of_the_learnt_half(scale):
    scenario = load_scenario(DEMO)
    bounds = ProceduralWorld(scenario.world).bounds
    known = []
    for mission in scenario.missions:
        if mission.role == "sequence":
            track, frames = mission.track, mission.scaled(scale).frames
            box = box_of(bounds, track, reach_m(mission.camera, track.altitude_m))
            flight = plan_flight(track, box, frames, 0, np.random.default_rng(0))
            cells = np.floor(flight.positions_at(flight.stamps_ns) / 200.0).astype(int).tolist()
            learnt, tested = split_halves(frames)
            known += [cell in cells[learnt] for cell in cells[tested]]
    assert np.mean(known) > 0.75


def test_scaling_rounds_and_never_goes_below_24_frames():
    assert [dataclasses.replace(MISSION, frames=n).scaled(0.2).frames for n in (63, 348, 500)] == [24, 70, 100]


SCENARIO = """
world: {seed: 5, width_m: 1200, height_m: 1000, resolution_m: 4}
mission_defaults:
  camera: {width_px: 64, height_px: 48}
  track: {altitude_m: 150}
missions:
  - {name: one, frames: 24, track: {kind: random}}
  - {name: two, frames: 30, modality: IR, role: held_out, appearance: {hour: 22}}
"""


def test_mission_defaults_are_merged_key_by_key(tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    one, two = load_scenario(tmp_path / "s.yaml").missions
    assert (one.track.kind, one.track.altitude_m, one.camera.width_px) == ("random", 150.0, 64)
    assert (two.track.kind, two.modality, two.appearance.hour) == ("out_and_back", "IR", 22.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("missions: [{name: a, framse: 3}]", "s.yaml: mission a: .*unknown setting 'framse'; did you mean 'frames'"),
        ("missions: [{name: a, camera: {tilt_deg: 45}}]", "mission a: .*'tilt_deg' is 45.0; it must be 0.0 to 30.0"),
        ("missions: [{name: a, camera: 3}]", "mission a: 'camera' must be a mapping"),
        ("missions: [{frames: 3}]", "mission 1: has no name"),
        ("missions: [{name: a}, {name: a}]", "two missions are called a"),
        ("missions: {a: 1}", "'missions' must be a list"),
        ("wrold: {}", "unknown setting 'wrold'; did you mean 'world'"),
        ("world: 4", "'world' must be a mapping"),
    ],
)
def test_a_scenario_with_a_mistake_is_refused_in_words(tmp_path, text, message):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_scenario(tmp_path / "s.yaml")


def test_rasters_are_found_beside_the_scenario_or_where_one_says(tmp_path):
    (tmp_path / "s.yaml").write_text("missions: [{name: a, raster: 2015.tif, bands: [4]}, {name: b, raster: /x/y.tif}]")
    beside = load_scenario(tmp_path / "s.yaml")
    assert [mission.raster for mission in beside.missions] == [tmp_path / "2015.tif", Path("/x/y.tif")]
    (tmp_path / "dates").mkdir()
    elsewhere = load_scenario(tmp_path / "s.yaml", raster=tmp_path / "dates")
    assert elsewhere.missions[0].raster == tmp_path / "dates" / "2015.tif"
    one_file = load_scenario(tmp_path / "s.yaml", raster=tmp_path / "other.tif")
    assert one_file.raster == tmp_path / "other.tif" and one_file.missions[0].raster is None
    assert one_file.missions[0].bands == (4,)
    write_raster(tmp_path / "other.tif")
    assert isinstance(one_file.world_of(one_file.missions[0]), RasterWorld)
    with pytest.raises(AerialVprError, match=r"2015\.tif"):
        beside.world_of(beside.missions[0])


# The command and its pictures


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
