"""Damage to a bag, a killed writer and a full disk cost no more than their part."""

import logging
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bag_support import FRAMES, assert_whole_flight, foreign
from mission_support import GRID, fly, jpeg, stamp
from rosbags.rosbag2 import StoragePlugin

from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission.mission import mission_facts, read_mission


@pytest.fixture(scope="module")
def flown(tmp_path_factory) -> Path:
    return fly(tmp_path_factory.mktemp("bags") / "sortie", FRAMES, name="JHT-01", modality="IR")


def cut(bag: Path, folder: Path, share: float, keep_metadata: bool) -> Path:
    copy = shutil.copytree(bag, folder)
    (file,) = (entry for entry in copy.iterdir() if entry.suffix in (".mcap", ".db3"))
    with file.open("r+b") as stream:
        stream.truncate(int(file.stat().st_size * share))
    if not keep_metadata:
        (copy / "metadata.yaml").unlink()
    return copy


@pytest.mark.parametrize("keep_metadata", [True, False])
def test_bags_cut_anywhere_are_read_up_to_the_last_whole_chunk(tmp_path, flown, caplog, keep_metadata):
    size = (flown / "sortie_0.mcap").stat().st_size
    lengths = []
    for number, share in enumerate([0.21, 0.4, 0.5, 0.66, 0.8, 0.95, 1 - 1 / size]):
        caplog.clear()
        copy = cut(flown, tmp_path / str(number), share, keep_metadata)
        mission = read_mission(copy, GRID)
        assert_whole_flight(mission)
        assert (mission.name, mission.modality) == ("JHT-01", "IR")
        assert "could be read" in caplog.text
        lengths.append(len(mission))
    assert lengths == sorted(lengths)
    assert lengths[0] >= 2
    assert lengths[-1] == FRAMES
    with pytest.raises(MissionError, match="nothing of it can be read"):
        read_mission(cut(flown, tmp_path / "stump", 100 / size, keep_metadata), GRID)


def test_a_cut_sqlite_bag_gives_what_is_readable_or_says_so(tmp_path, caplog):
    bag = foreign(tmp_path / "bag", StoragePlugin.SQLITE3)
    mission = read_mission(cut(bag, tmp_path / "most", 0.7, True), GRID)
    assert 0 < len(mission) < FRAMES
    assert "could be read" in caplog.text
    with pytest.raises(MissionError, match="cut short or damaged"):
        read_mission(cut(bag, tmp_path / "stump", 0.01, True), GRID)


def test_a_flipped_bit_costs_one_chunk_and_no_more(tmp_path, flown, caplog):
    copy = shutil.copytree(flown, tmp_path / "copy")
    data = bytearray((copy / "sortie_0.mcap").read_bytes())
    data[data.index(jpeg(9)) + 300] ^= 4
    (copy / "sortie_0.mcap").write_bytes(data)
    mission = read_mission(copy, GRID)
    assert len(mission) >= FRAMES - 3
    assert "chunk is damaged" in caplog.text
    assert stamp(9) not in mission.stamps_ns


def test_a_missing_part_of_a_bag_is_said_and_the_rest_read(tmp_path, flown, caplog):
    copy = shutil.copytree(flown, tmp_path / "copy")
    metadata = (copy / "metadata.yaml").read_text()
    listed = "relative_file_paths:\n  - sortie_0.mcap\n"
    assert listed in metadata
    (copy / "metadata.yaml").write_text(metadata.replace(listed, listed + "  - sortie_1.mcap\n"))
    assert_whole_flight(read_mission(copy, GRID))
    assert "sortie_1.mcap is missing" in caplog.text


WRITE_FOR_EVER = """
import itertools, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], str(Path(sys.argv[2]).parent)]
from mission_support import jpeg, place, stamp
from aerial_vpr_cl.mission.bag_writer import MissionWriter
writer = MissionWriter(Path(sys.argv[1]), name="LSZ-06", modality="VIS")
for index in itertools.count():
    time = index / 2
    writer.write_fix(stamp(time), *place(time))
    writer.write_image(stamp(time), jpeg(index))
    print(index, flush=True)
"""


def test_a_writer_killed_in_flight_loses_no_more_than_its_last_chunk(tmp_path, caplog):
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path / "bag"), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    )
    written = 0
    for line in child.stdout:
        written = int(line) + 1
        if written >= 60:
            break
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not (tmp_path / "bag" / "metadata.yaml").exists()
    with caplog.at_level(logging.WARNING):
        mission = read_mission(tmp_path / "bag", GRID)
    assert len(mission) >= written - 3  # a chunk is one second of flight, two frames here
    assert "could be read" in caplog.text
    assert (mission.name, mission.modality) == ("LSZ-06", "VIS") == mission_facts(tmp_path / "bag")
    np.testing.assert_array_equal(mission.stamps_ns, [stamp(index / 2) for index in range(len(mission))])
    assert [frame.image for frame in mission.frames[-2:]] == [jpeg(len(mission) - 2), jpeg(len(mission) - 1)]


FILL_THE_DISK = """
import resource, sys
from pathlib import Path
sys.path[:0] = [sys.argv[2], str(Path(sys.argv[2]).parent)]
from mission_support import jpeg, place, stamp
from aerial_vpr_cl.errors import MissionError
from aerial_vpr_cl.mission.bag_writer import MissionWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
with MissionWriter(Path(sys.argv[1])) as writer:
    try:
        for index in range(1000):
            writer.write_fix(stamp(index), *place(index))
            writer.write_image(stamp(index), jpeg(index))
    except MissionError as error:
        print(error)
    try:
        writer.write_fix(stamp(index), *place(index))
    except MissionError as error:
        print(error)
"""


def test_a_full_disk_is_said_and_what_was_written_stays_readable(tmp_path):
    child = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(tmp_path / "bag"), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    first, second = child.stdout.splitlines()
    assert "cannot be written" in first
    assert "free some space" in first
    assert "earlier write failed" in second
    mission = read_mission(tmp_path / "bag", GRID)
    assert_whole_flight(mission)
    assert sum(len(frame.image) for frame in mission.frames) > 40_000
