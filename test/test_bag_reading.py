"""Bags of other recorders are missions too: which topics count, which frames, and why a bag is refused."""

from pathlib import Path

import numpy as np
import pytest
from bag_support import FRAMES, assert_whole_flight, foreign
from mission_support import GRID, START_NS, fly, jpeg, picture, place, stamp
from rosbags.rosbag2 import CompressionMode, StoragePlugin

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission import messages
from aerial_vpr_cl.mission.bag_writer import MissionWriter
from aerial_vpr_cl.mission.gnss import OWN_HEIGHT_VARIANCE_M2
from aerial_vpr_cl.mission.mission import read_mission


@pytest.fixture(scope="module")
def flown(tmp_path_factory) -> Path:
    return fly(tmp_path_factory.mktemp("bags") / "sortie", FRAMES, name="JHT-01", modality="IR")


@pytest.mark.parametrize("storage", [StoragePlugin.SQLITE3, StoragePlugin.MCAP])
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("compression", [None, CompressionMode.MESSAGE, CompressionMode.FILE])
def test_bags_of_other_recorders_are_read(tmp_path, storage, raw, compression):
    mission = read_mission(foreign(tmp_path / "flight.7", storage, raw, compression), GRID)
    assert (mission.name, mission.modality, len(mission)) == ("flight.7", "unknown", FRAMES)
    assert_whole_flight(mission)
    if raw:
        np.testing.assert_array_equal(mission.frames[5].decode(), picture(5))
        assert mission.frames[5].image.startswith(messages.PNG_SIGNATURE)
    else:
        assert mission.frames[5].image == jpeg(5)


@pytest.mark.parametrize("storage", [StoragePlugin.SQLITE3, StoragePlugin.MCAP])
def test_bags_without_metadata_and_bare_files_are_read(tmp_path, storage):
    bag = foreign(tmp_path / "bag", storage)
    (bag / "metadata.yaml").unlink()
    assert_whole_flight(read_mission(bag, GRID))
    (file,) = bag.iterdir()
    assert_whole_flight(read_mission(file, GRID, modality="IR"))


def test_chunks_compressed_by_zstd_or_lz4_are_read(tmp_path):
    zstd = foreign(tmp_path / "zstd", StoragePlugin.MCAP, raw=True, compression=CompressionMode.STORAGE)
    assert_whole_flight(read_mission(zstd, GRID))
    assert_whole_flight(read_mission(fly(tmp_path / "lz4", compression="lz4"), GRID))


def test_images_without_stamp_get_the_time_they_were_received(tmp_path):
    assert_whole_flight(read_mission(foreign(tmp_path / "bag", StoragePlugin.MCAP, unstamped=True), GRID))


def test_frames_without_a_good_position_are_refused_and_counted(tmp_path):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(30):
            bad = {"status": -1} if 5 <= second < 10 else {"variance_m2": 900.0} if 12 <= second < 17 else {}
            if not 20 <= second < 24:
                writer.write_fix(stamp(second), *place(second), 500.0, **bad)
            writer.write_image(stamp(second + 0.5), jpeg(second))
        writer.write_image(stamp(3.5), jpeg(3))
        writer.write_image(stamp(3.25), jpeg(3)[:200])
    mission = read_mission(tmp_path / "bag", GRID)
    counts = {"no fix": 6, "covariance": 6, "gap": 5, "duplicate": 1, "damaged image": 1}
    assert mission.refused == counts
    assert len(mission) == 30 - 17
    assert (np.diff(mission.stamps_ns) > 0).all()


def test_time_running_backwards_is_sorted_and_said(tmp_path, caplog):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in [5, 6, 7, 0, 1, 2, 3, 4]:
            writer.write_fix(stamp(second), *place(second))
            writer.write_image(stamp(second), jpeg(second))
    mission = read_mission(tmp_path / "bag", GRID)
    assert_whole_flight(mission)
    assert [frame.image for frame in mission.frames] == [jpeg(second) for second in range(8)]
    assert "time runs backwards 1 times" in caplog.text


def test_own_answers_never_become_labels_whatever_their_topic_is_called(tmp_path):
    def answer(second):
        return messages.nav_sat_fix(stamp(second), *place(second), 0.0, variance_m2=OWN_HEIGHT_VARIANCE_M2)

    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(10):
            writer.write_serialized("/eyes/fix", messages.NAV_SAT_FIX, stamp(second), answer(second))
            writer.write_image(stamp(second), jpeg(second))
            if second < 3:
                writer.write_fix(stamp(second), *place(second))
    assert len(read_mission(tmp_path / "bag", GRID)) < 5
    with pytest.raises(MissionError, match="an answer of this package"):
        read_mission(tmp_path / "bag", GRID, fix_topic="/eyes/fix")


def test_truth_is_used_only_when_asked_for(tmp_path):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(10):
            writer.write_truth(stamp(second), *place(second))
            writer.write_truth(stamp(second + 0.5), *place(second + 0.5))
            writer.write_fix(stamp(second), *place(second + 2))  # 40 m off, and fewer than the truth
            writer.write_image(stamp(second), jpeg(second))
    gnss, truth = (read_mission(tmp_path / "bag", GRID, positions=kind) for kind in ("gnss", "truth"))
    np.testing.assert_allclose(gnss.positions - truth.positions, [[40.0, 0.0]] * 10, atol=1e-3)
    assert_whole_flight(truth)
    with pytest.raises(MissionError, match="choose gnss or truth"):
        read_mission(tmp_path / "bag", GRID, positions="visual")


def test_topics_are_chosen_by_type_and_number_or_by_name(tmp_path, flown):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(10):
            fix = messages.nav_sat_fix(stamp(second), *place(second), 500.0)
            writer.write_serialized("/fix", messages.NAV_SAT_FIX, stamp(second), fix)
            for tenth in range(10):  # our own estimates, more of them than of the receiver's
                writer.write_serialized(
                    "/drone/localization/fix", messages.NAV_SAT_FIX, stamp(second + tenth / 10), fix
                )
            writer.write_raw_image(stamp(second), picture(second))  # the same camera twice
            writer.write_image(stamp(second), jpeg(second))
            front = messages.compressed_image(stamp(second), jpeg(50 + second))
            writer.write_serialized("/front/compressed", messages.COMPRESSED_IMAGE, stamp(second), front)
            if second < 3:
                writer.write_serialized("/gnss2", messages.NAV_SAT_FIX, stamp(second), fix)
    with pytest.raises(MissionError, match=r"/camera/image/compressed \(10 .*/front/compressed \(10 .*--image-topic"):
        read_mission(tmp_path / "bag", GRID)
    assert read_mission(tmp_path / "bag", GRID, image_topic="front/compressed").frames[0].image == jpeg(50)
    down = read_mission(tmp_path / "bag", GRID, image_topic="/camera/image/compressed")
    assert down.frames[0].image == jpeg(0)
    assert_whole_flight(down)
    with pytest.raises(MissionError, match="/odd is not in the bag; --fix-topic can be: /drone"):
        read_mission(tmp_path / "bag", GRID, image_topic="/camera/image", fix_topic="odd")
    with pytest.raises(MissionError, match=r"/fix is of type .*NavSatFix; --image-topic can be: /camera"):
        read_mission(flown, GRID, image_topic="/fix")


def test_of_a_cameras_raw_and_compressed_topics_one_is_taken(tmp_path):
    with MissionWriter(tmp_path / "bag") as writer:
        for second in range(5):
            writer.write_fix(stamp(second), *place(second))
            writer.write_raw_image(stamp(second), picture(second))
            writer.write_image(stamp(second), jpeg(second))
    assert read_mission(tmp_path / "bag", GRID).frames[0].image == jpeg(0)


def test_bags_that_cannot_be_used_say_why(tmp_path, flown):
    def refused(match, path, **options):
        with pytest.raises(MissionError, match=match) as caught:
            read_mission(path, GRID, **options)
        assert str(path) in str(caught.value)

    refused("no such bag", tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    refused("holds no .mcap or .db3", tmp_path / "folder")
    for name, match in {"old.bag": "rosbags-convert", "notes.txt": "not a rosbag2", "x.mcap": "not an MCAP"}.items():
        (tmp_path / name).write_text("something else entirely")
        refused(match, tmp_path / name)
    (tmp_path / "y.mcap").touch()
    refused("file is empty", tmp_path / "y.mcap")
    (tmp_path / "z.db3").write_text("not a database")
    refused("nothing of it can be read", tmp_path / "z.db3")

    with MissionWriter(tmp_path / "empty"):
        pass
    refused("no images in the bag .it is empty", tmp_path / "empty")
    with MissionWriter(tmp_path / "blind") as writer:
        writer.write_fix(1, *place(0))
    refused(r"no images in the bag \(it holds 1 × /fix\)", tmp_path / "blind")
    with MissionWriter(tmp_path / "lost") as writer:
        writer.write_image(1, jpeg(1))
        writer.write_truth(1, *place(0))
    refused("no GNSS in the bag", tmp_path / "lost")
    refused("only simulated bags", foreign(tmp_path / "foreign", StoragePlugin.MCAP), positions="truth")

    with MissionWriter(tmp_path / "jammed") as writer:
        for second in range(4):
            writer.write_fix(stamp(second), *place(second), status=-1)
            writer.write_image(stamp(second), jpeg(second))
    refused("none of the 4 images .* 4 no fix", tmp_path / "jammed")
    with MissionWriter(tmp_path / "clocks") as writer:
        for second in range(4):
            writer.write_fix(stamp(second), *place(second))
            writer.write_image(stamp(second) - START_NS + 1, jpeg(second))
    refused("the same clock", tmp_path / "clocks")
