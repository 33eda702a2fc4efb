"""The localization node over real DDS: what goes in, what comes out, and that nothing stops it."""

import dataclasses
import shutil
import signal
import time
import typing
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import rclpy
import store_support
import torch
import yaml
from diagnostic_msgs.msg import DiagnosticStatus
from flight_support import Flight
from lifecycle_msgs.msg import Transition
from nav_msgs.msg import Odometry
from ros_support import REPOSITORY, NodeProcess
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, Imu, NavSatStatus
from std_msgs.msg import Bool, Float64
from std_srvs.srv import SetBool, Trigger
from visualization_msgs.msg import Marker, MarkerArray

from aerial_vpr_cl.knowledge.engines import engines_of, export_engines
from aerial_vpr_cl.knowledge.facts import GenerationFacts
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import LOW_CONFIDENCE, Estimate
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.mission.bag_reader import open_bag
from aerial_vpr_cl.mission.mission import read_mission
from aerial_vpr_cl.nodes import messages
from aerial_vpr_cl.nodes.image_messages import decode_image, pick_decoder, sample_images
from aerial_vpr_cl.nodes.living_node import LATCHED
from aerial_vpr_cl.nodes.localization_node import FIXED, PARAMETERS, LocalizationNode

CELL_M2 = 200.0**2 / 12.0


def balanced(values):
    """Whether every image that came has been answered, rejected or dropped."""
    done = sum(int(values[name]) for name in ("positions published", "frames dropped", "frames rejected"))
    return int(values["images received"]) == done


def positions_of(fix, store):
    return open_map(store).grid.projection.to_utm(fix.latitude, fix.longitude)


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    with Flight(tmp_path_factory.mktemp("flight"), "compressed") as running:
        yield running.ready()


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    with Flight(tmp_path_factory.mktemp("raw"), "raw", image_type=Image) as running:
        yield running.ready()


def offline(store, image):
    """The position the library gives an image that goes through JPEG, as the node's does."""
    decoded = cv2.cvtColor(cv2.imdecode(np.frombuffer(store_support.jpeg(image), np.uint8), 1), cv2.COLOR_BGR2RGB)
    return Localizer.open(store).localize(decoded)


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
        mismatched.peer.wait_for(lambda: "CompressedImage" in mismatched.newest_report()[1], 30.0, what="the mismatch")
        words = mismatched.newest_report()[1]
        assert "not sensor_msgs/msg/Image; image_transport is 'raw'" in words and mismatched.name in words


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"min_confidense": 0.7}, "did you mean 'min_confidence'?"),
        ({"recording.rate_hertz": 2.0}, "did you mean 'recording.rate_hz'?"),
        ({"device": "tpu"}, "auto, cpu, cuda or cuda:N"),
    ],
)
def test_a_parameter_that_does_not_exist_or_cannot_be_is_refused_at_start(tmp_path, parameters, words):
    with NodeProcess("localization_node", log=tmp_path / "log", parameters=parameters) as node:
        assert node.process.wait(60.0) != 0
        assert words in node.log and next(iter(parameters)) in node.log and "Traceback" not in node.log


def test_instruments_are_heard_recorded_and_told_apart_when_they_fail(flight, tmp_path):
    """Remapped as in flight; without any of them the node goes on, and says what it does without."""
    store = flight.store
    parameters = {"height_message": "Float64", "sensors.horizontal_fov_deg": 60.0}
    with Flight(tmp_path, "equipped", store=store, **parameters) as equipped:
        equipped.ready()
        values = equipped.status(lambda values: values["state"] == "active")[2]
        assert values["input imu"] == "missing: level flight is assumed, the heading is unknown"
        assert values["input camera_info"] == "missing: horizontal_fov_deg of 60° is used"
        peer = equipped.peer
        imu, height = peer.publisher(Imu, "imu", 10), peer.publisher(Float64, "height", 10)
        odometry, calibration = peer.publisher(Odometry, "odometry", 10), peer.publisher(CameraInfo, "camera_info", 10)
        peer.wait_matched()
        assert peer.call(SetBool, "equipped/record", SetBool.Request(data=True)).success
        stamps, points = store_support.track(8)
        for row, image in enumerate(store_support.view(store, points)):
            attitude, moved = Imu(), Odometry()
            attitude.orientation.z = attitude.orientation.w = float(np.sqrt(0.5))  # the nose points north
            for message in (attitude, moved):
                message.header.stamp.sec, message.header.stamp.nanosec = divmod(int(stamps[row]), 10**9)
            moved.pose.pose.position.x, moved.pose.pose.orientation.w = 20.0 * row, 1.0
            imu.publish(attitude)
            height.publish(Float64(data=260.0))
            odometry.publish(moved)
            calibration.publish(CameraInfo())  # not calibrated: no K
            peer.spin(0.05)
            equipped.fix(stamps[row], *open_map(store).grid.projection.to_wgs84(points[row]))
            assert equipped.ask(image, stamps[row]).status.status == 0
        values = equipped.status(lambda values: values["input odometry"] == "alive")[2]
        assert values["input imu"] == "alive" and values["input camera_info"].startswith("alive, but")
        mission = peer.call(SetBool, "equipped/record", SetBool.Request(data=False)).message.removeprefix("mission ")
        recorded = open_bag(mission)
        assert {"/imu", "/height", "/odometry", "/camera/camera_info"} <= set(recorded.counts)
        assert recorded.types["/height"] == "std_msgs/msg/Float64"
        values = equipped.status(lambda values: values["input imu"].startswith("stale"))[2]
        assert "level flight is assumed" in values["input imu"]
        assert equipped.process.stop(signal.SIGINT) == 0
        shutil.rmtree(mission)


def test_a_map_that_vanished_and_returned_leaves_no_problem_behind(flight):
    folder, away = flight.store / "map", flight.store / "elsewhere"
    folder.rename(away)
    level, _, _ = flight.status(lambda values: values["store problem"])
    assert level == DiagnosticStatus.WARN
    assert not flight.peer.call(Trigger, f"{flight.name}/reload").success
    away.rename(folder)
    flight.status(lambda values: values["store problem"] == "")
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    assert flight.ask(image, 7 * 10**12).status.status == 0
    flight.store.rename(flight.store.with_name("gone"))
    assert not flight.peer.call(Trigger, f"{flight.name}/reload").success
    flight.store.with_name("gone").rename(flight.store)
    flight.status(lambda values: values["store problem"] == "")
    flight.ask(image, 5)


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


def test_a_recorded_flight_is_to_learning_the_simulators_bag(flight, tmp_path):
    grid = open_map(flight.store).grid
    original = read_mission(store_support.write_flight(flight.store, tmp_path / "original", 20), grid)
    assert flight.set(recording__rate_hz=0.0) == ""
    started = flight.peer.call(SetBool, f"{flight.name}/record", SetBool.Request(data=True))
    assert started.success and "recording mission" in started.message
    stamps, points = store_support.track(40, period_s=0.5)
    latitudes, longitudes = grid.projection.to_wgs84(points)
    for row, stamp_ns in enumerate(stamps):
        flight.fix(stamp_ns, latitudes[row], longitudes[row])
        if row % 2 == 0:
            message = flight.image(np.zeros((2, 2, 3), np.uint8), stamp_ns)
            message.data = original.frames[row // 2].image
            flight.ask_message(message)
        flight.peer.spin(0.005)
    assert flight.status(lambda values: values["recording"] == "recording")[2]["recording: problem"] == ""
    stopped = flight.peer.call(SetBool, f"{flight.name}/record", SetBool.Request(data=False))
    assert stopped.success
    (path,) = GenerationStore(flight.store).waiting_missions()
    assert str(path) in stopped.message
    recorded = read_mission(path, grid)
    assert np.array_equal(recorded.stamps_ns, original.stamps_ns)
    assert np.array_equal(recorded.positions, original.positions)
    assert np.array_equal(recorded.labels(grid), original.labels(grid))
    assert [frame.image for frame in recorded.frames] == [frame.image for frame in original.frames]


def test_what_the_autopilot_says_of_a_landing_ends_the_recording(flight):
    landed = flight.peer.publisher(Bool, "landed", LATCHED)
    flight.peer.wait_matched()
    assert flight.set(recording__mode="auto") == ""
    assert flight.peer.call(SetBool, f"{flight.name}/record", SetBool.Request(data=True)).success
    stamps, points = store_support.track(30, period_s=0.5)
    for stamp_ns, latitude, longitude in zip(stamps, *open_map(flight.store).grid.projection.to_wgs84(points)):
        flight.fix(stamp_ns + 5 * 10**15, latitude, longitude)
        flight.peer.spin(0.02)
    flight.status(lambda values: values["recording"] == "recording")
    landed.publish(Bool(data=True))
    flight.status(lambda values: values["recording"] == "off")
    assert flight.set(recording__mode="service") == ""


def test_the_diagnostics_say_what_computes_the_network_and_why_not_what_was_exported(raw):
    pytest.importorskip("onnxruntime")
    image = store_support.view(raw.store, store_support.track(1)[1])[0]
    stamps = iter(range(6 * 10**15, 7 * 10**15))
    before = raw.ask(image, next(stamps))
    assert raw.status()[2]["runtime"] == "eager"
    export_engines(raw.store)
    assert raw.peer.call(Trigger, f"{raw.name}/reload").success
    raw.status(lambda values: values["runtime"] == "onnx (CPU)")
    after = raw.ask(image, next(stamps))
    assert (before.latitude, before.longitude) == pytest.approx((after.latitude, after.longitude), abs=1e-6)
    for graph in engines_of(raw.store).glob("tail-*/graph.onnx"):
        graph.write_bytes(b"damaged")
    assert raw.peer.call(Trigger, f"{raw.name}/reload").success
    _, _, values = raw.status(lambda values: values["runtime"] == "eager")
    assert "damaged" in values["runtime: problem"]


def test_a_new_generation_is_taken_into_use_without_missing_a_frame_and_one_of_another_grid_is_not(flight):
    image = store_support.view(flight.store, store_support.track(1)[1])[0]
    first = offline(flight.store, image).position
    network = Localizer.open(flight.store).network.copy_living_parts()
    with torch.no_grad():
        for weight in network.heads.weights:
            weight.neg_()
    store_support.commit_generation(flight.store, network)
    second = offline(flight.store, image).position
    assert first.tolist() != second.tolist()
    stamps = iter(range(3 * 10**13, 4 * 10**13))
    answers = []
    while not answers or np.abs(positions_of(answers[-1], flight.store) - second).max() > 1e-2:
        answers.append(flight.ask(image, next(stamps)))
        flight.peer.spin(0.02)
        assert len(answers) < 3000
    assert all(answer.status.status == 0 for answer in answers)

    with GenerationStore(flight.store).draft() as draft:  # learnt on other ground
        (draft.path / "tail.safetensors").write_bytes(b"x")
        draft.commit(["tail.safetensors"], GenerationFacts(grid_hash="another"))
    level, _, _ = flight.status(lambda values: "grid" in values["store problem"])
    assert level == DiagnosticStatus.WARN
    answer = flight.peer.call(Trigger, f"{flight.name}/reload")
    assert not answer.success and "grid" in answer.message
    np.testing.assert_allclose(positions_of(flight.ask(image, next(stamps)), flight.store), second, atol=1e-2)
    GenerationStore(flight.store).rollback()
    flight.status(lambda values: values["store problem"] == "" and values["generation"] == "1")

    store_support.commit_generation(flight.store, network, temperature=1e4)  # sure of nothing
    assert flight.peer.call(Trigger, f"{flight.name}/reload").message == "generation 3"
    before = len(flight.poses)
    silent = flight.ask(image, next(stamps))
    middle, covariance = Localizer(network).estimator.ignorance
    assert silent.status.status == -1
    np.testing.assert_allclose(positions_of(silent, flight.store), middle, atol=1e-2)
    np.testing.assert_allclose(np.asarray(silent.position_covariance).reshape(3, 3)[:2, :2], covariance, atol=1e-3)
    assert int(flight.status(balanced)[2][f"rejected: {LOW_CONFIDENCE}"]) >= 1
    assert len(flight.poses) == before


def test_a_slow_network_answers_the_newest_frame_and_nothing_grows(tmp_path):
    store = store_support.make_store(tmp_path, input_size=512)
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (400, 400, 3), np.uint8)
    with Flight(tmp_path, "slow", store=store) as flight:
        flight.ready()
        flight.fixes.clear()
        heavy = flight.image(image, 0)
        memory_mb, lags, answered = [], [], 0
        for index in range(1, 301):
            heavy.header.stamp.sec = index
            flight.images.publish(heavy)
            flight.peer.spin(0.025)
            for fix in flight.fixes[answered:]:
                lags.append(index - fix.header.stamp.sec)
            answered = len(flight.fixes)
            memory_mb.append(flight.process.memory_mb)
        last = flight.ask_message(heavy)
        assert last.header.stamp.sec == 300
        sequence = [fix.header.stamp.sec for fix in flight.fixes]
        assert sequence == sorted(sequence) and len(sequence) > 5
        values = flight.status(balanced)[2]
        assert int(values["frames dropped"]) > 20 and int(values["images received"]) > 200
        half = len(lags) // 2
        assert max(lags[half:]) <= 2 * max(lags[:half]) + 5
        assert len(heavy.data) > 120_000
        assert max(memory_mb[150:]) < max(memory_mb[:150]) + 9  # half of what came meanwhile
        assert flight.process.stop(signal.SIGINT) == 0, flight.process.log


def test_without_a_store_the_node_says_what_to_do_and_starts_when_there_is_one(tmp_path):
    made = store_support.make_store(tmp_path / "made")
    image = store_support.view(made, store_support.track(1)[1])[0]
    later = tmp_path / "later"
    with Flight(tmp_path, "patient", store=later) as flight:
        level, words, values = flight.status()
        level, words, values = flight.status(lambda values: values["store problem"])
        assert (level, values["state"]) == (DiagnosticStatus.ERROR, "unconfigured")
        assert "aerial-vpr build-map" in words and str(later) in words
        answer = flight.peer.call(Trigger, f"{flight.name}/reload")
        assert not answer.success and "aerial-vpr build-map" in answer.message
        made.rename(later)
        flight.peer.wait_matched()
        assert flight.ask(image, 5).status.status == 0
        assert flight.process.stop(signal.SIGTERM) == 0, flight.process.log


@pytest.mark.parametrize(("transport", "number"), [("flight", signal.SIGINT), ("raw", signal.SIGTERM)])
def test_a_signal_even_twice_ends_the_node_cleanly_with_the_bag_closed(request, transport, number):
    flight = request.getfixturevalue(transport)  # the last test that uses it
    assert flight.peer.call(SetBool, f"{flight.name}/record", SetBool.Request(data=True)).success
    before = GenerationStore(flight.store).waiting_missions()
    grid = open_map(flight.store).grid
    stamps, points = store_support.track(8)
    for row, image in enumerate(store_support.view(flight.store, points)):
        flight.fix(stamps[row], *grid.projection.to_wgs84(points[row]))
        flight.ask(image, stamps[row])
    assert flight.process.stop(number, times=2) == 0, flight.process.log
    assert "Traceback" not in flight.process.log
    (path,) = set(GenerationStore(flight.store).waiting_missions()) - set(before)
    assert (path / "metadata.yaml").exists()
    assert len(read_mission(path, grid)) >= 7


@pytest.fixture
def idle_node():
    context = rclpy.Context()
    arguments = ["--ros-args", "--params-file", str(REPOSITORY / "config" / "flight.yaml"), "-p", "autostart:=false"]
    rclpy.init(context=context)
    node = LocalizationNode(context=context, cli_args=arguments)
    yield node
    node.close()
    node.destroy_node()
    context.try_shutdown()


def test_flight_yaml_is_every_parameter_at_its_default(idle_node):
    sections = yaml.safe_load((REPOSITORY / "config" / "flight.yaml").read_text())
    assert list(sections) == ["/**/localization", "/**"], "ROS puts -p and launch arguments where /** first stands"
    flat = {}
    for name, value in [pair for written in sections.values() for pair in written["ros__parameters"].items()]:
        flat |= {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    defaults = {
        (f"{prefix}." if prefix else "") + field.name: field.default
        for prefix, classes in PARAMETERS.items()
        for cls in classes
        for field in dataclasses.fields(cls)
    }
    assert flat == defaults


def test_every_parameter_is_described_and_bounded(idle_node):
    for prefix, classes in PARAMETERS.items():
        for cls in classes:
            hints = typing.get_type_hints(cls)
            for field in dataclasses.fields(cls):
                name = (f"{prefix}." if prefix else "") + field.name
                descriptor = idle_node.describe_parameter(name)
                assert descriptor.description == field.metadata["help"] and len(descriptor.description) > 10
                assert descriptor.read_only == (name in FIXED or prefix in FIXED)
                if hints[field.name] is float:
                    assert descriptor.floating_point_range
                if hints[field.name] is int:
                    assert descriptor.integer_range
                if field.metadata["choices"]:
                    assert all(choice in descriptor.additional_constraints for choice in field.metadata["choices"])


def test_all_decoders_there_are_agree():
    name, decode = pick_decoder()
    assert name in ("own", "cv_bridge")
    for image in sample_images():
        assert np.array_equal(decode(image), decode_image(image))


def test_a_bridge_that_ignores_row_padding_is_not_used(tmp_path, monkeypatch, caplog):
    (tmp_path / "careless_bridge.py").write_text(
        "import numpy as np\n"
        "class CvBridge:\n"
        "    def imgmsg_to_cv2(self, message, desired_encoding):\n"
        "        pixels = np.frombuffer(bytes(message.data), np.uint8)[: message.height * message.width]\n"
        "        return np.repeat(pixels.reshape(message.height, message.width, 1), 3, axis=2)\n"
    )
    (tmp_path / "careful_bridge.py").write_text(
        "from aerial_vpr_cl.nodes.image_messages import decode_image\n"
        "class CvBridge:\n"
        "    def imgmsg_to_cv2(self, message, desired_encoding):\n"
        "        return decode_image(message)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert pick_decoder("careless_bridge")[0] == "own"
    assert "not used" in caplog.text
    assert pick_decoder("careful_bridge")[0] == "cv_bridge"
    assert pick_decoder("no_bridge_at_all")[0] == "own"


def test_a_geo_pose_holds_the_position_in_degrees(tmp_path):
    grid = open_map(store_support.make_store(tmp_path)).grid
    estimator = Localizer.open(tmp_path / "store").estimator
    estimate = estimator.estimate(np.eye(grid.n_classes)[7])
    assert isinstance(estimate, Estimate)

    def stand_in(header):  # geographic_msgs is not on PyPI; these are its fields
        pose = SimpleNamespace(position=SimpleNamespace(latitude=0.0, longitude=0.0, altitude=0.0))
        return SimpleNamespace(header=header, pose=SimpleNamespace(pose=pose, covariance=None))

    message = messages.geo_pose_message(stand_in, "header", estimate, estimator)
    position = message.pose.pose.position
    np.testing.assert_allclose(
        grid.projection.to_utm(position.latitude, position.longitude), grid.centres[7], atol=1e-3
    )
    # GeoPoseWithCovariance.msg: "In order, the parameters are: (Lat, Lon, Alt, ...)"
    long_in_east = dataclasses.replace(estimate, covariance=np.array([[900.0, 30.0], [30.0, 400.0]]))
    message = messages.geo_pose_message(stand_in, "header", long_in_east, estimator)
    covariance = np.asarray(message.pose.covariance).reshape(6, 6)
    assert covariance[:2, :2].tolist() == [[400.0, 30.0], [30.0, 900.0]]
    assert np.isnan(message.pose.pose.position.altitude)
