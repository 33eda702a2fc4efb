"""aerial-vpr inspect: tables and pictures of what a buffer holds."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from synthetic_rasters import write_raster

from aerial_vpr_cl.cli import main
from aerial_vpr_cl.commands.inspect import describe
from aerial_vpr_cl.errors import SettingsError
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.knowledge import commit_generation
from aerial_vpr_cl.knowledge.map_folder import build_map
from aerial_vpr_cl.memory import picture
from aerial_vpr_cl.memory.buffer import Observation, ReplayBuffer
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.model.checkpoint import save_trunk
from aerial_vpr_cl.model.network import Network, NetworkSettings
from aerial_vpr_cl.model.weights import RANDOM
from aerial_vpr_cl.satellite.patches import PatchSettings


def frame(group, number, mission="sortie-1", modality="VIS"):
    """A plain JPEG whose green says its group and whose blue says its number."""
    bgr = np.zeros((60, 80, 3), np.uint8)
    bgr[:] = (20 * number, 60 * group + 20, 0)
    image = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, 100])[1].tobytes()
    return Observation(image, 10 * group + number, (0.0, 0.0), number, mission, modality)


def flown_buffer():
    groups = [[frame(g, n, f"sortie-{1 + n % 2}", "IR" if n == 3 else "VIS") for n in range(g + 2)] for g in range(3)]
    return ReplayBuffer((*groups, ()), budget=20, seen=(30, 31, 32, 0))


def test_the_tables_count_groups_missions_and_modalities():
    text = describe(flown_buffer())
    lines = [line.split() for line in text.splitlines()]
    assert "9 frames" in text and "20 places in each of 4 groups" in text
    assert ["2", "4", "4", "32"] in lines  # group 2: four frames of four cells
    assert ["all", "9", "9", "93"] in lines
    assert ["sortie-1", "VIS", "1", "2", "2", "0", "5"] in lines
    assert ["sortie-2", "IR", "0", "0", "1", "0", "1"] in lines
    assert text.endswith("1 IR, 8 VIS")


def test_an_empty_buffer_is_described_too():
    assert describe(ReplayBuffer.empty(4)).startswith("0 frames")


def test_the_contact_sheet_shows_frames_in_their_colours_group_by_group():
    sheet = picture.contact_sheet(flown_buffer())
    tile_height = picture.THUMBNAIL_PX + picture.CAPTION_PX + picture.MARGIN_PX
    tile_width = picture.THUMBNAIL_PX + picture.MARGIN_PX
    assert sheet.shape == (4 * picture.CAPTION_PX + 3 * tile_height, picture.COLUMNS * tile_width, 3)
    for group in range(3):
        top = (group + 1) * picture.CAPTION_PX + group * tile_height
        for number in range(group + 2):
            seen = sheet[top + 20, number * tile_width + 20].astype(int)
            assert np.abs(seen - [0, 60 * group + 20, 20 * number]).max() < 6


def test_a_long_group_is_cut_and_a_broken_image_is_marked(tmp_path):
    broken = Observation(b"no image", 1, (0, 0), 0, "Föhr", "IR")
    buffer = ReplayBuffer(([broken] * 30,), budget=30)
    tile_height = picture.THUMBNAIL_PX + picture.CAPTION_PX + picture.MARGIN_PX
    assert picture.contact_sheet(buffer, per_group=13).shape[0] == picture.CAPTION_PX + 2 * tile_height
    picture.save_contact_sheet(buffer, tmp_path / "sheet.png", per_group=13)
    assert cv2.imread(str(tmp_path / "sheet.png")).shape[0] == picture.CAPTION_PX + 2 * tile_height


def test_retained_frames_are_found_by_mission_and_time():
    buffer = flown_buffer()
    assert picture.retained_of_mission(buffer, "sortie-1", [0, 1, 2, 7]).tolist() == [True, False, True, False]
    assert picture.retained_of_mission(buffer, "sortie-9", [0, 1]).tolist() == [False, False]


@pytest.mark.parametrize("projection", picture.PROJECTIONS)
@pytest.mark.parametrize("n", [0, 1, 2, 4, 40])
def test_frames_are_projected_however_few_they_are(projection, n):
    features = np.random.default_rng(0).normal(size=(n, 8))
    points = picture.project(features, projection)
    assert points.shape == (n, 2) and np.isfinite(points).all()
    np.testing.assert_array_equal(points, picture.project(features, projection))


def test_pca_keeps_the_distances_of_flat_features():
    flat = np.random.default_rng(0).normal(size=(9, 2)) @ np.random.default_rng(1).normal(size=(2, 7))
    points = picture.project(flat, "pca")
    np.testing.assert_allclose(
        np.linalg.norm(points[:, None] - points[None], axis=-1), np.linalg.norm(flat[:, None] - flat[None], axis=-1)
    )


def test_an_unknown_projection_is_answered_with_the_valid_ones():
    with pytest.raises(SettingsError, match=r"'umap'.*tsne, pca"):
        picture.project(np.ones((3, 3)), "umap")


def test_the_picture_of_retained_frames_has_a_panel_a_mission_with_its_frames_in_colour(tmp_path):
    features = np.random.default_rng(0).normal(size=(20, 8))
    picture.draw_retained(
        {"one": (features, np.arange(20) < 12), "two": (features[:3], [True, False, False])},
        tmp_path / "retained.png",
        projection="pca",
    )
    drawn = cv2.imread(str(tmp_path / "retained.png")).astype(int)
    height, width, _ = drawn.shape
    assert width == 2 * height
    blue = (drawn[:, :, 0] > 120) & (drawn[:, :, 2] < 60)  # dots of retained frames, and one in each legend
    left, right = (int(half.sum()) for half in np.split(blue, 2, axis=1))
    assert left > 3 * right > 0


@pytest.fixture
def store(tmp_path):
    """A store with a map, a network of random weights and a buffer that kept every third frame of a mission."""
    raster = write_raster(tmp_path / "map.tif", np.random.default_rng(0).integers(1, 255, (500, 500, 3), np.uint8))
    settings = PatchSettings(cell_side_m=100, footprint_m=80, stride_m=50, view="as_seen", rotations=1)
    folder = build_map(raster, tmp_path / "store", settings)
    network = Network.build(
        NetworkSettings(backbone="tf_efficientnet_lite0", input_size=64), folder.grid, weights=RANDOM
    )
    save_trunk(folder.path / "trunk.safetensors", network)
    with MissionWriter(tmp_path / "bag", name="sortie", modality="IR") as writer:
        for number in range(9):
            stamp_ns = 1_700_000_000_000_000_000 + number * 10**9
            position = folder.grid.centres[0] + [0, 20.0 * number]
            writer.write_fix(stamp_ns, *np.ravel(folder.grid.projection.to_wgs84(position)).tolist())
            writer.write_image(stamp_ns, frame(number % 4, number).image)
    mission = read_mission(tmp_path / "bag", folder.grid)
    buffer = ReplayBuffer.empty(folder.grid.n_groups)
    for group in range(folder.grid.n_groups):
        kept = [
            Observation(flown.image, int(label), flown.position, flown.stamp_ns, mission.name, mission.modality)
            for flown, label in list(zip(mission.frames, mission.labels(folder.grid)))[::3]
            if folder.grid.groups[label] == group
        ]
        buffer = buffer.replace_group(group, kept, seen=len(kept))
    commit_generation(GenerationStore.create(tmp_path / "store"), network, buffer, GenerationFacts())
    return tmp_path


def test_the_verb_shows_the_newest_buffer_and_draws_its_pictures(store, capsys):
    pictures = ["--sheet", store / "sheet.png", "--retained", store / "retained.png", "--mission", store / "bag"]
    assert main([str(word) for word in ["inspect", store / "store", *pictures]]) == 0
    shown = capsys.readouterr().out
    assert "3 frames" in shown and "sortie" in shown and shown.count("3 IR") == 1
    assert cv2.imread(str(store / "sheet.png")) is not None
    assert cv2.imread(str(store / "retained.png")) is not None


def test_the_verb_reads_the_buffer_it_is_given_and_says_what_is_wrong(store, capsys):
    ReplayBuffer.empty(4).save(store / "other.h5", "f" * 64)
    assert main(["inspect", str(store / "store"), "--buffer", str(store / "other.h5")]) == 1
    assert "belongs to the grid ffffffffffff" in capsys.readouterr().err
    assert main(["inspect", str(store / "store"), "--retained", str(store / "retained.png")]) == 1
    assert "--mission" in capsys.readouterr().err
