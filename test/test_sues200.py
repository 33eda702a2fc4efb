"""SUES-200: a small folder in the published layouts, and the retrieval metrics by hand."""

import shutil

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aerial_vpr_cl.benchmark.records import read_records
from aerial_vpr_cl.benchmark.sues200 import (
    ALTITUDES_M,
    altitude_missions,
    open_sues200,
    retrieval_task,
    summarize_retrieval,
)
from aerial_vpr_cl.cli import main
from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.evaluation.metrics import old_final

LOCATIONS = ("0001", "0002", "0003", "0004", "0005")
TRAINING = ("0001", "0003", "0004")


@pytest.fixture(scope="module")
def downloaded(tmp_path_factory):
    """Five locations as the archive unpacks: four altitudes of 50 drone images, one satellite image."""
    root = tmp_path_factory.mktemp("sues") / "SUES-200-512x512"
    for name in LOCATIONS:
        pixels = cv2.resize(np.random.default_rng(int(name)).integers(0, 255, (6, 6, 3), np.uint8), (48, 48))
        jpeg, png = (cv2.imencode(ending, pixels)[1].tobytes() for ending in (".jpg", ".png"))
        for altitude in ALTITUDES_M:
            folder = root / "drone_view_512" / name / str(altitude)
            folder.mkdir(parents=True)
            for k in range(50):
                (folder / f"{k}.jpg").write_bytes(jpeg)
        (root / "satellite-view" / name).mkdir(parents=True)
        (root / "satellite-view" / name / "0.png").write_bytes(png)
    (root / "indexs.yaml").write_text(f"index : {list(TRAINING)}\n")
    return root


@pytest.fixture(scope="module")
def divided(downloaded):
    """The same as the data set's split script lays it out."""
    root = downloaded.parent / "Dataset"
    for altitude in map(str, ALTITUDES_M):
        for name in LOCATIONS:
            drone, satellite = downloaded / "drone_view_512" / name / altitude, downloaded / "satellite-view" / name
            testing = root / "Testing" / altitude
            if name in TRAINING:
                shutil.copytree(drone, root / "Training" / altitude / "drone" / name)
                shutil.copytree(satellite, root / "Training" / altitude / "satellite" / name)
            else:
                shutil.copytree(drone, testing / "query_drone" / name)
                shutil.copytree(satellite, testing / "query_satellite" / name)
            shutil.copytree(drone, testing / "gallery_drone" / name)
            shutil.copytree(satellite, testing / "gallery_satellite" / name)
    return root


def test_each_altitude_is_a_mission_that_learns_forty_images_and_tests_ten(downloaded):
    missions = altitude_missions(open_sues200(downloaded))
    assert [mission.altitude_m for mission in missions] == [150, 200, 250, 300]
    for mission in missions:
        assert [path.stem for path in mission.train_images[:40]] == [str(k) for k in range(40)]
        assert [path.stem for path in mission.test_images[:10]] == [str(k) for k in range(40, 50)]
        assert {path.parent.name for path in mission.train_images} == {str(mission.altitude_m)}
        assert mission.train_labels.tolist() == np.repeat([0, 1, 2], 40).tolist()
        assert mission.test_labels.tolist() == np.repeat([0, 1, 2], 10).tolist()
        assert {path.parts[-3] for path in mission.train_images + mission.test_images} == set(TRAINING)


def test_unseen_locations_are_sought_among_all_satellite_images(downloaded):
    task = retrieval_task(open_sues200(downloaded))
    assert len(task.queries) == 2 * 4 * 50 and set(task.query_locations) == {"0002", "0005"}
    assert task.gallery_locations == LOCATIONS and all(path.name == "0.png" for path in task.gallery)
    assert len(retrieval_task(open_sues200(downloaded), [150]).queries) == 2 * 50


CONFIG = """
sues200: SUES-200-512x512
threshold_m: 100
map: {modulus: 1}  # with three locations, four groups would leave nothing to tell apart
base: {backbone: tf_efficientnet_lite0, input_size: 64, max_steps: 24, device: cpu}
learn: {cycles: 1, views: 1}
retrieval_methods: []
base_threads: 1
studies:
  - {name: main, title: SUES-200, methods: [dbs_hybrid], seeds: [0], budgets: [4]}
"""


def test_the_benchmark_learns_the_altitudes_and_seeks_unseen_locations(downloaded, tmp_path, capsys):
    (tmp_path / "sues200.yaml").write_text(CONFIG)
    command = ["benchmark", str(tmp_path / "sues200.yaml"), "--raster-dir", str(downloaded.parent)]
    assert main([*command, "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "Old-3 Final" in shown and "Mean rank" in shown
    (record,) = read_records(tmp_path / "out" / "results").values()
    assert record["missions"] == ["150m", "200m", "250m", "300m"]
    assert [record["facts"][name]["train"] for name in record["missions"]] == [3 * 40] * 4
    assert [record["facts"][name]["test"] for name in record["missions"]] == [3 * 10] * 4
    # Drone and satellite show the very same picture here: everything is found.
    assert record["summary"]["faa"] == 1.0
    assert record["unseen_locations"]["recall_1"] == record["unseen_locations"]["mean_rank"] == 1.0
    assert main([*command, "--out", str(tmp_path / "out"), "--list"]) == 0
    assert "1 of 1 runs are done" in capsys.readouterr().out


def test_a_store_is_refused_and_left_alone(downloaded, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    (tmp_path / "sues200.yaml").write_text("store: mine\n" + CONFIG)
    command = ["benchmark", str(tmp_path / "sues200.yaml"), "--raster-dir", str(downloaded.parent)]
    assert main([*command, "--out", str(tmp_path / "out")]) != 0
    assert "leave out 'store'" in capsys.readouterr().err
    assert (tmp_path / "mine" / "file").read_text() == "precious"


def test_both_layouts_hold_the_same_data(downloaded, divided):
    one, other = open_sues200(downloaded), open_sues200(divided)
    assert one.training_locations == other.training_locations == TRAINING
    assert one.test_locations == other.test_locations
    assert retrieval_task(one).query_locations == retrieval_task(other).query_locations
    for a, b in zip(altitude_missions(one), altitude_missions(other)):
        assert [path.name for path in a.train_images] == [path.name for path in b.train_images]
        assert a.test_labels.tolist() == b.test_labels.tolist()


def test_the_list_of_training_locations_may_lie_elsewhere(downloaded, tmp_path):
    (tmp_path / "mine.yaml").write_text("index: ['0002', 5]\n")
    data = open_sues200(downloaded, tmp_path / "mine.yaml")
    assert data.training_locations == ("0002", "0005") and data.test_locations == TRAINING


@pytest.mark.parametrize(
    "content, reason", [("index: ['0999']", "location 0999 is not in"), ("places: []", "no list 'index'")]
)
def test_a_wrong_list_of_training_locations_is_refused(downloaded, tmp_path, content, reason):
    (tmp_path / "indexs.yaml").write_text(content)
    with pytest.raises(MissionError, match=reason):
        open_sues200(downloaded, tmp_path / "indexs.yaml")


def test_incomplete_data_is_named(downloaded, tmp_path):
    with pytest.raises(MissionError, match="not SUES-200"):
        open_sues200(tmp_path)
    with pytest.raises(MissionError, match=r"nowhere.yaml: no such file"):
        open_sues200(downloaded, tmp_path / "nowhere.yaml")
    short = tmp_path / "short"
    shutil.copytree(downloaded, short)
    for k in range(30, 50):
        (short / "drone_view_512/0003/200" / f"{k}.jpg").unlink()
    with pytest.raises(MissionError, match=r"0003.200: 30 images, expected 50"):
        altitude_missions(open_sues200(short))
    shutil.rmtree(short / "drone_view_512/0004/250")
    with pytest.raises(MissionError, match=r"0004.250: no images"):
        open_sues200(short)


def test_retrieval_by_hand():
    # Gallery images lie at angles from the x axis; the query along it ranks them by angle.
    angles = np.radians([0, 10, 20, 30, 40, 50, 60])
    gallery = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    summary = summarize_retrieval([[2, 0], [5, 0]], gallery, ["a", "b"], ["a", "x", "x", "x", "x", "b", "b"])
    assert (summary.recall_1, summary.recall_5, summary.recall_10) == (0.5, 0.5, 1.0)
    assert summary.mean_average_precision == pytest.approx((1 + (1 / 6 + 2 / 7) / 2) / 2)
    assert summary.mean_rank == (1 + 6) / 2


def test_a_query_without_a_right_answer_is_refused():
    with pytest.raises(ValueError, match="at least one gallery image"):
        summarize_retrieval([[1, 0]], [[1, 0]], ["a"], ["b"])


@given(st.integers(0, 1000), st.integers(1, 20), st.integers(1, 30))
def test_retrieval_metrics_follow_from_the_ranks(seed, m, n):
    rng = np.random.default_rng(seed)
    queries, gallery, labels = rng.normal(size=(m, 8)), rng.normal(size=(n, 8)), rng.integers(0, n, m)
    summary = summarize_retrieval(queries, gallery, labels, range(n))
    cosines = (queries @ gallery.T) / np.linalg.norm(gallery, axis=1)
    ranks = 1 + (cosines > cosines[np.arange(m), labels][:, None]).sum(axis=1)
    assert summary.mean_rank == pytest.approx(ranks.mean())
    assert summary.mean_average_precision == pytest.approx((1 / ranks).mean())
    assert summary.recall_5 == pytest.approx((ranks <= 5).mean())
    assert summary.recall_1 <= summary.mean_average_precision + 1e-12


# The paper's table for SUES-200: R@1, R@5, R@10, mAP, mean rank; FAA, Old-3 Final.
PAPER_RETRIEVAL = {
    "Random": (91.388, 98.465, 99.363, 94.632, 1.270),
    "LBS": (89.817, 98.494, 99.323, 93.794, 1.293),
    "DBS-Hybrid": (91.023, 97.975, 98.804, 94.172, 1.429),
}
PAPER_RETENTION = {"Random": (98.979, 98.972), "LBS": (98.972, 98.954), "DBS-Hybrid": (99.104, 99.093)}


def best_map(recalls, precision_of_rank):
    """The highest mAP that recalls at 1, 5 and 10 allow with one right image: every query at its band's first place."""
    shares = np.diff([0, *recalls, 100])
    return sum(share * precision_of_rank(rank) for share, rank in zip(shares, (1, 2, 6, 11)))


@pytest.mark.parametrize("method", PAPER_RETRIEVAL)
def test_the_paper_s_map_is_plain_average_precision(method):
    *recalls, printed, mean_rank = PAPER_RETRIEVAL[method]
    assert printed <= best_map(recalls, lambda rank: 1 / rank)
    # The data set's script halves the precision of a single right image that is not first: that cannot reach the paper.
    assert printed > best_map(recalls, lambda rank: 1 if rank == 1 else 0.5 / rank)
    assert mean_rank >= best_map(recalls, lambda rank: rank) / 100


@pytest.mark.parametrize("method", PAPER_RETENTION)
def test_old_three_final_leaves_a_possible_last_accuracy(method):
    faa, old = PAPER_RETENTION[method]
    last = 4 * faa - 3 * old
    assert 0 <= last <= 100
    R = np.full((5, 4), old) + np.eye(5, 4, k=-1) * (last - old)
    assert old_final(R) == pytest.approx(old) and R[-1].mean() == pytest.approx(faa)
