"""What a replay sends: the bag's messages, in their order, under the right names, at the right time."""

import shutil

import numpy as np
import pytest
from mission_support import START_NS, fly, jpeg, picture, place, stamp

from aerial_vpr_cl.errors import MissionError, SettingsError
from aerial_vpr_cl.evaluation.answers import judge_answers
from aerial_vpr_cl.images import decode_compressed, decode_raw
from aerial_vpr_cl.knowledge.readiness import what_is_missing
from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.bag_writer import TRUTH_TOPIC, MissionWriter
from aerial_vpr_cl.mission.gnss import OWN_HEIGHT_VARIANCE_M2
from aerial_vpr_cl.mission.messages import (
    COMPRESSED_IMAGE,
    IMAGE,
    NAV_SAT_FIX,
    compressed_image,
    deserialize,
    nav_sat_fix,
    stamp_of,
)
from aerial_vpr_cl.mission.playback import Pace, header_stamp_ns, open_playback


def test_messages_come_byte_for_byte_in_the_order_of_their_receipt(tmp_path):
    bag = fly(tmp_path / "flight", frames=6)
    cues = list(open_playback(bag))
    assert [cue.time_ns for cue in cues] == sorted(cue.time_ns for cue in cues)
    frames = [cue for cue in cues if cue.is_frame]
    recorded = list(open_bag(bag).messages("/camera/image/compressed"))
    assert [cue.data for cue in frames] == [raw.data for raw in recorded]
    assert [cue.stamp_ns for cue in frames] == [stamp(second) for second in range(6)]
    assert sum(cue.message_type == NAV_SAT_FIX for cue in cues) == 12


def test_the_stamp_is_read_without_the_rest_of_the_message(tmp_path):
    message = nav_sat_fix(1_700_000_000_123_456_789, 48.0, 11.0, 0.0)
    assert header_stamp_ns(message) == 1_700_000_000_123_456_789
    swapped = b"\x00\x00" + message[2:4] + message[4:8][::-1] + message[8:12][::-1]
    assert header_stamp_ns(swapped) == 1_700_000_000_123_456_789
    with pytest.raises(MissionError, match="too few"):
        header_stamp_ns(message[:7])


def test_frames_without_a_stamp_get_the_time_of_their_receipt(tmp_path):
    with MissionWriter(tmp_path / "unstamped") as writer:
        writer.write_serialized("/camera/compressed", COMPRESSED_IMAGE, START_NS + 7, compressed_image(0, jpeg(0)))
    (cue,) = open_playback(tmp_path / "unstamped")
    assert cue.data == compressed_image(START_NS + 7, jpeg(0))
    assert cue.stamp_ns == START_NS + 7


def test_raw_stays_raw_and_compressed_can_be_decompressed(tmp_path):
    with MissionWriter(tmp_path / "raw") as writer:
        writer.write_raw_image(START_NS, picture(0))
    playback = open_playback(tmp_path / "raw")
    assert playback.published() == {"image": IMAGE}
    compressed = fly(tmp_path / "flight", frames=2)
    assert open_playback(compressed).published() == {"image": COMPRESSED_IMAGE, "fix": NAV_SAT_FIX}
    frame = next(cue for cue in open_playback(compressed, transport="raw") if cue.is_frame)
    message = deserialize(frame.data, IMAGE)
    image = decode_raw(message.height, message.width, message.encoding, message.step, 0, message.data)
    np.testing.assert_array_equal(image, decode_compressed(jpeg(0)))
    assert stamp_of(message) == frame.stamp_ns == START_NS
    with pytest.raises(MissionError, match="as recorded"):
        open_playback(tmp_path / "raw", transport="compressed")


def test_a_bag_without_gnss_is_played_without(tmp_path):
    with MissionWriter(tmp_path / "jammed") as writer:
        writer.write_image(START_NS, jpeg(0))
    assert list(open_playback(tmp_path / "jammed").routes.values()) == ["image"]


def test_routes_rename_topics_and_add_others(tmp_path):
    bag = fly(tmp_path / "flight", frames=2, image_topic="/nadir/compressed", fix_topic="/gnss")
    playback = open_playback(bag, routes=["/gnss:=/uav1/gnss", f"{TRUTH_TOPIC}:=truth"])
    assert playback.routes == {"/nadir/compressed": "image", "/gnss": "/uav1/gnss", TRUTH_TOPIC: "truth"}
    assert {cue.topic for cue in playback} == {"image", "/uav1/gnss", "truth"}
    with pytest.raises(MissionError, match="it holds: /gnss, "):
        open_playback(bag, routes=["/odom:=odometry"])
    with pytest.raises(SettingsError, match="BAG_TOPIC:=TOPIC"):
        open_playback(bag, routes=["/odom"])


def test_a_part_of_a_flight_can_be_played(tmp_path):
    bag = fly(tmp_path / "flight", frames=10)
    playback = open_playback(bag, start_s=3.0, duration_s=4.0)
    seconds = [(cue.stamp_ns - START_NS) / 1e9 for cue in playback if cue.is_frame]
    assert seconds == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert playback.frames == 5
    with pytest.raises(MissionError, match="begin earlier"):
        open_playback(bag, start_s=60.0)


def test_a_cut_bag_is_played_up_to_the_cut(tmp_path):
    bag = fly(tmp_path / "flight", frames=20)
    (file,) = bag.glob("*.mcap")
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / file.name).write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    frames = [cue for cue in open_playback(cut) if cue.is_frame]
    assert 5 < len(frames) < 20
    shutil.rmtree(bag)
    with pytest.raises(MissionError, match="no such bag"):
        open_playback(bag)


def test_pace_follows_the_bag_at_its_rate():
    now = [100.0]
    pace = Pace(2.0, clock=lambda: now[0])
    assert pace.bag_time_ns() == 0
    assert pace.seconds_until(START_NS) == 0.0
    assert pace.seconds_until(START_NS + 3_000_000_000) == pytest.approx(1.5)
    now[0] += 1.0
    assert pace.seconds_until(START_NS + 3_000_000_000) == pytest.approx(0.5)
    assert pace.bag_time_ns() == START_NS + 2_000_000_000
    assert pace.seconds_until(START_NS - 5_000_000_000) == 0.0  # time running backwards is not waited for
    assert Pace(0.0).seconds_until(START_NS) == Pace(0.0).seconds_until(START_NS + 10**12) == 0.0


def answered_flight(path, offsets_deg: list[float], *, truth: bool = True):
    """A result bag: answers this many degrees of latitude off; NaN stands for a rejected frame."""
    with MissionWriter(path) as writer:
        for second, offset_deg in enumerate(offsets_deg):
            latitude, longitude = place(second)
            if truth:
                writer.write_truth(stamp(second), latitude, longitude)
            status = -1 if np.isnan(offset_deg) else 0
            latitude += float(np.nan_to_num(offset_deg))
            answer = nav_sat_fix(
                stamp(second), latitude, longitude, 0.0, status=status, variance_m2=OWN_HEIGHT_VARIANCE_M2
            )
            writer.write_serialized("/localization/fix", NAV_SAT_FIX, stamp(second), answer)
    return path


def test_answers_are_judged_against_the_truth(tmp_path):
    report = judge_answers(answered_flight(tmp_path / "result", [0.0, 0.0006, 0.002, np.nan]))  # 0, 67, 222 m
    found = report.score
    assert (found.frames, found.published, report.reference, report.judged) == (4, 3, "truth", 4)
    assert found.median_m == pytest.approx(66.7, abs=0.5)
    assert found.recall == {"25": 0.25, "50": 0.25, "100": 0.5, "300": 0.75}
    assert found.silences == {"not said": 1}
    assert "4 answers, 3 with a position" in str(report)
    assert "25 / 25 / 50 / 75 %, median 67 m" in str(report)


def test_answers_without_a_reference_are_only_counted(tmp_path):
    report = judge_answers(answered_flight(tmp_path / "result", [0.0, np.nan], truth=False))
    assert "2 answers, 1 with a position; no GNSS or ground truth" in str(report)


def test_a_missing_store_is_explained_with_the_commands_that_make_one(tmp_path):
    assert "aerial-vpr build-map MAP.tif --out STORE" in what_is_missing("")
    assert "no such directory" in what_is_missing(str(tmp_path / "nowhere"))
    assert f"aerial-vpr train-base {tmp_path}" in what_is_missing(str(tmp_path))
