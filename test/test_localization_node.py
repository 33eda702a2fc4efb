"""The localization node over real DDS: what goes in, what comes out, and that nothing stops it."""

import signal
import time

import numpy as np
import pytest
import store_support
from diagnostic_msgs.msg import DiagnosticStatus
from flight_support import Flight, balanced, offline, positions_of
from lifecycle_msgs.msg import Transition
from sensor_msgs.msg import CompressedImage, Image, NavSatStatus
from std_srvs.srv import SetBool
from visualization_msgs.msg import Marker, MarkerArray

from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.mission.mission import read_mission

CELL_M2 = 200.0**2 / 12.0


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    with Flight(tmp_path_factory.mktemp("flight"), "compressed") as running:
        yield running.ready()


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    with Flight(tmp_path_factory.mktemp("raw"), "raw", image_type=Image) as running:
        yield running.ready()


def test_answers_have_the_images_stamps_and_the_librarys_positions(flight):
    stamps, points = store_support.track(12)
    localizer, datum = Localizer.open(flight.store), open_map(flight.store).datum
    for stamp_ns, image in zip(stamps, store_support.view(flight.store, points)):
        fix = flight.ask(image, stamp_ns)
        pose = flight.peer.wait_for(lambda fix=fix: [p for p in flight.poses if p.header.stamp == fix.header.stamp])[0]
        expected = offline(flight.store, image)
        assert fix.status.status == 0 and fix.header.frame_id == "camera" and pose.header.frame_id == "map"
        position = pose.pose.pose.position
        assert [position.x, position.y] == datum.to_map(expected.position).tolist()
        assert np.abs([position.x, position.y]).max() < store_support.SIDE_M  # small numbers, for viewers
        np.testing.assert_allclose(positions_of(fix, flight.store), expected.position, atol=1e-3)
        covariance = np.asarray(fix.position_covariance).reshape(3, 3)
        np.testing.assert_allclose(covariance[:2, :2], expected.covariance, rtol=1e-4)
        assert np.isfinite(covariance).all() and np.isfinite(np.asarray(pose.pose.covariance)).all()
        assert np.linalg.eigvalsh(covariance[:2, :2]).min() >= CELL_M2 * (1 - 1e-9)
    assert localizer.generation.number == 0


def test_raw_images_of_any_layout_are_answered_alike(raw):
    pixels = store_support.view(raw.store, store_support.track(1)[1], 48)[0]
    expected = Localizer.open(raw.store).localize(pixels).position
    padded = np.zeros((48, 48 * 3 + 7), np.uint8)
    padded[:, : 48 * 3] = pixels[..., ::-1].reshape(48, -1)
    message = raw.image(pixels, 10)
    message.encoding, message.step, message.data = "bgr8", padded.shape[1], padded.tobytes()
    for stamp_ns, answered in ((11, raw.ask(pixels, 11)), (10, raw.ask_message(message))):
        assert answered.header.stamp.nanosec == stamp_ns
        np.testing.assert_allclose(positions_of(answered, raw.store), expected, atol=1e-3)
    thermal = raw.image(pixels, 12)
    grey = (pixels[..., 0].astype(">u2") * 9 + 21_000).tobytes()
    thermal.encoding, thermal.step, thermal.is_bigendian, thermal.data = "mono16", 96, 1, grey
    assert raw.ask_message(thermal).status.status == 0


def test_positions_do_not_depend_on_the_gnss_lost_broken_or_lying(flight):
    _, points = store_support.track(4)
    images = store_support.view(flight.store, points)
    alone = [flight.ask(image, 10**9 + index) for index, image in enumerate(images)]
    for case, (latitude, longitude, status) in enumerate([(np.nan, np.nan, 0), (0.0, 0.0, -1), (48.0, 11.0, 0)]):
        for index, image in enumerate(images):
            stamp_ns = (2 + case) * 10**9 + index
            flight.fix(stamp_ns, latitude, longitude, status)
            fix = flight.ask(image, stamp_ns)
            assert (fix.latitude, fix.longitude) == (alone[index].latitude, alone[index].longitude)
    flight.fix(10**10, np.nan, np.nan)
    values = flight.status(lambda values: "cannot be used" in values["GNSS"])[2]
    assert values["GNSS"].endswith("(nan)") and int(values["GNSS fixes refused: no fix"]) >= 1
    level, _, values = flight.status(lambda values: values["GNSS"] == "absent: no fixes come any more")
    assert level in (DiagnosticStatus.OK, DiagnosticStatus.WARN)


def test_the_error_against_a_trusted_gnss_is_in_the_diagnostics(flight):
    grid = open_map(flight.store).grid
    stamps, points = store_support.track(6)
    stamps = stamps + 10**12
    for row, image in enumerate(store_support.view(flight.store, points)):
        latitude, longitude = grid.projection.to_wgs84(points[row])
        flight.fix(stamps[row], latitude, longitude)
        flight.ask(image, stamps[row])
    _, _, values = flight.status(lambda values: values["error against GNSS, median (m)"])
    errors = [
        np.linalg.norm(offline(flight.store, image).position - point)
        for image, point in zip(store_support.view(flight.store, points), points)
    ]
    assert min(errors) - 1 <= float(values["error against GNSS, median (m)"]) <= max(errors) + 1


def test_the_top_cells_are_shown_to_who_looks(flight):
    arrays = flight.peer.listen(MarkerArray, f"{flight.name}/cells")
    flight.peer.wait_matched()
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    assert flight.set(top_k=3) == ""
    flight.peer.wait_for(lambda: flight.ask(image, 2 * 10**12 + len(flight.fixes)) and arrays)
    flight.peer.wait_for(lambda: len(arrays[-1].markers) == 4)
    best = arrays[-1].markers[1].pose.position
    expected = open_map(flight.store).datum.to_map(offline(flight.store, image).position)
    np.testing.assert_allclose([best.x, best.y], expected, atol=1e-6)


def test_cells_go_when_there_is_no_answer(flight):
    arrays = flight.peer.listen(MarkerArray, f"{flight.name}/cells")
    flight.peer.wait_matched()
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    flight.peer.wait_for(lambda: flight.ask(image, 2 * 10**12 + len(flight.fixes)) and arrays)
    blank = np.full_like(image, 90)
    assert flight.ask(blank, 3 * 10**12).status.status == NavSatStatus.STATUS_NO_FIX
    flight.peer.wait_for(lambda: [marker.action for marker in arrays[-1].markers] == [Marker.DELETEALL])


def test_what_is_not_known_is_nan_and_an_image_without_a_stamp_is_answered_with_the_time_now(flight):
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    fix = flight.ask(image, 4 * 10**12)
    assert np.isnan(fix.altitude) and np.isnan(flight.ask(np.full_like(image, 90), 5 * 10**12).altitude)
    before_s, flight.fixes[:] = time.time(), []
    flight.images.publish(flight.image(image, 0))
    answer = flight.peer.wait_for(lambda: next(iter(flight.fixes), None))
    assert before_s - 1 <= answer.header.stamp.sec <= time.time() + 1
    flight.ask(image, 5)


def test_the_node_itself_subscribes_to_its_inputs(flight):
    node = flight.peer.node
    heard = {name for name, _ in node.get_subscriber_names_and_types_by_node(flight.name, "/")}
    assert heard >= {f"/{flight.name}/image", f"/{flight.name}/gnss"}
    assert [name for name in node.get_node_names() if name.startswith(flight.name)].count(f"{flight.name}_inputs") == 0


def test_own_answers_are_no_gnss(flight):
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    flight.gnss.publish(flight.ask(image, 6 * 10**12))
    flight.status(lambda values: values["GNSS"].endswith("(own estimate)"))
    flight.ask(image, 5)


def test_images_of_another_type_than_asked_for_are_named(flight):
    with Flight(flight.process._path.parent, "mismatched", store=flight.store, image_type=Image) as mismatched:
        mismatched.peer.node.destroy_publisher(mismatched.images)
        mismatched.peer.node.create_publisher(CompressedImage, f"{mismatched.name}/image", 1)
        mismatched.status(lambda values: values["state"] == "active")
        mismatched.peer.wait_for(lambda: "CompressedImage" in mismatched.newest_report()[1], what="the mismatch")
        words = mismatched.newest_report()[1]
        assert "not sensor_msgs/msg/Image; image_transport is 'raw'" in words and mismatched.name in words


def test_parameters_change_in_flight_within_their_ranges_only(flight):
    assert flight.set(min_confidence=0.25, recording__rate_hz=3) == ""
    assert "min_confidence" in flight.set(min_confidence=1.5)
    assert "choose one of" in flight.set(recording__mode="sometimes")
    assert "read-only" in flight.set(store="/elsewhere")
    assert flight.set(min_confidence=0.5, recording__rate_hz=2.0) == ""


def test_time_that_runs_backwards_is_noticed_and_answered(flight):
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    jumps = int(flight.status()[2]["time jumps"])
    flight.ask(image, 9 * 10**15)
    assert flight.ask(image, 5 * 10**15).status.status == 0
    assert int(flight.status(lambda values: int(values["time jumps"]) > jumps)[2]["time jumps"]) == jumps + 1
    flight.ask(image, 5)


def test_an_inactive_node_is_silent_and_an_active_one_answers_again(flight):
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    assert flight.change_state(Transition.TRANSITION_DEACTIVATE)
    before = len(flight.fixes)
    for index in range(5):
        flight.images.publish(flight.image(image, 100 + index))
    flight.status(lambda values: values["state"] == "inactive")
    assert len(flight.fixes) == before
    answer = flight.peer.call(SetBool, f"{flight.name}/record", SetBool.Request(data=True))
    assert not answer.success and "inactive" in answer.message
    assert flight.change_state(Transition.TRANSITION_ACTIVATE)
    assert flight.ask(image, 200).status.status == 0


def malformed(flight, index):
    """A bad message of ten kinds."""
    message = flight.image(np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3), 10**9 * (index + 1))
    if flight.image_type is CompressedImage:
        data = bytes(message.data)
        message.data = [
            b"", b"\x00", b"not an image", data[: len(data) // 2], data[:20], b"\x89PNG\r\n\x1a\n" + data,
            bytes(len(data)), data[::-1], b"\xff\xd8\xff\xd9", b"\xff" * 5000,
        ][index % 10]  # fmt: skip
        return message
    changes = [
        {"data": b""}, {"data": bytes(message.data)[:-1]}, {"data": bytes(message.data) + b"x"}, {"width": 17},
        {"height": 17}, {"width": 0}, {"step": 1}, {"step": 2**32 - 1}, {"encoding": "rgb9"}, {"encoding": ""},
    ][index % 10]  # fmt: skip
    for name, value in changes.items():
        setattr(message, name, value)
    return message


@pytest.mark.parametrize("transport", ["compressed", "raw"])
def test_a_thousand_malformed_images_and_fixes_are_counted_and_the_next_good_frame_is_answered(request, transport):
    flight = request.getfixturevalue("flight" if transport == "compressed" else "raw")
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    before = int(flight.status(balanced)[2].get("rejected: bad image", 0))
    flight.reports.clear()
    sent = seen = 0
    while seen < 1000 and sent < 50_000:  # those that newer ones replaced are not seen
        flight.images.publish(malformed(flight, sent))
        flight.fix(10**9 * (sent + 1), np.nan, [np.nan, np.inf, -np.inf][sent % 3], sent % 5 - 2)
        flight.peer.spin(0.002)
        sent += 1
        if report := flight.newest_report():
            seen = int(report[2].get("rejected: bad image", 0)) - before
    assert flight.process.alive and seen >= 1000
    assert flight.ask_message(malformed(flight, sent)).status.status == NavSatStatus.STATUS_NO_FIX
    assert flight.ask(image, 10**15).status.status == 0
    values = flight.status(balanced)[2]
    assert "rejected: internal error" not in values, values["last problem"]
    assert values["last problem"]


def test_a_slow_network_answers_the_newest_frame_and_nothing_grows(tmp_path):
    store = store_support.make_store(tmp_path, input_size=512)
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (400, 400, 3), np.uint8)
    with Flight(tmp_path, "slow", store=store) as flight:
        flight.ready()
        flight.status()
        flight.fixes.clear()
        heavy = flight.image(image, 0)
        memory_mb, lags, answered, sent = [], [], 0, 0
        while int(flight.newest_report()[2]["images received"]) < 400 and sent < 5000:  # DDS loses some
            sent += 1
            heavy.header.stamp.sec = sent
            flight.images.publish(heavy)
            flight.peer.spin(0.025)
            for fix in flight.fixes[answered:]:
                lags.append(sent - fix.header.stamp.sec)
            answered = len(flight.fixes)
            memory_mb.append(flight.process.memory_mb)
        last = flight.ask_message(heavy)
        assert last.header.stamp.sec == sent
        sequence = [fix.header.stamp.sec for fix in flight.fixes]
        assert sequence == sorted(sequence) and len(sequence) > 5
        values = flight.status(balanced)[2]
        assert int(values["frames dropped"]) > 20 and int(values["images received"]) >= 400
        half = len(lags) // 2
        assert max(lags[half:]) <= 2 * max(lags[:half]) + 5
        quarter = len(memory_mb) // 4
        # Medians, as peaks come and go; half of all images came from the middle of one quarter to that of the other.
        grown_mb = np.median(memory_mb[-quarter:]) - np.median(memory_mb[quarter : 2 * quarter])
        came_mb = 0.5 * int(values["images received"]) * len(heavy.data) / 1e6
        assert grown_mb < 0.5 * came_mb
        assert flight.process.stop(signal.SIGINT) == 0, flight.process.log


@pytest.mark.parametrize(("transport", "number"), [("flight", signal.SIGINT), ("raw", signal.SIGTERM)])
def test_a_signal_even_twice_ends_the_node_cleanly_with_the_bag_closed(request, transport, number):
    flight = request.getfixturevalue(transport)  # the last test that uses it
    assert flight.peer.call(SetBool, f"{flight.name}/record", SetBool.Request(data=True)).success
    before = GenerationStore(flight.store).waiting_missions()
    grid = open_map(flight.store).grid
    stamps, points = store_support.track(8)
    stamps = stamps + 10**16  # after all before: time that goes back begins another mission
    for row, image in enumerate(store_support.view(flight.store, points)):
        flight.fix(stamps[row], *grid.projection.to_wgs84(points[row]))
        flight.ask(image, stamps[row])
    assert flight.process.stop(number, times=2) == 0, flight.process.log
    assert "Traceback" not in flight.process.log
    (path,) = set(GenerationStore(flight.store).waiting_missions()) - set(before)
    assert (path / "metadata.yaml").exists()
    assert len(read_mission(path, grid)) >= 7
