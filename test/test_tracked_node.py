"""The localization node as it flies: the drone followed over the map, silent with a reason, GNSS watched."""

import numpy as np
import pytest
import store_support
from diagnostic_msgs.msg import DiagnosticStatus
from flight_support import STEP_M, TrackedFlight
from geometry_msgs.msg import PoseWithCovarianceStamped
from sensor_msgs.msg import NavSatStatus
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.nodes.living_node import LATCHED
from aerial_vpr_cl.nodes.messages import header_of


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracked")
    with TrackedFlight(folder, "tracked", publish_rate_hz=20.0, publish_tf=True) as flight:
        flight.peer.wait_matched()
        flight.status(lambda values: values["state"] == "active")
        yield flight


def test_who_does_not_ask_for_a_viewer_has_none_of_its_topics(flight):
    names = [name for name, _ in flight.peer.node.get_publisher_names_and_types_by_node(flight.name, "/")]
    assert f"/{flight.name}/pose" in names and not [name for name in names if "/viewer/" in name]


def begin_again(flight):
    """Another take-off: the clock of before is forgotten."""
    flight.point = store_support.track(1)[1][0].copy()
    assert flight.peer.call(Trigger, f"{flight.name}/relocalize").success


def test_the_drone_is_found_followed_and_told_to_the_metre_with_its_heading(flight):
    fix = flight.until_tracking()
    for _ in range(4):
        assert flight.error_m(fix) < 25.0
        fix = flight.step()
    assert flight.state()["state"] == "tracking" and flight.states[-1].level == DiagnosticStatus.OK
    told = flight.peer.wait_for(
        lambda: next((message for message in flight.odometry if message.header.stamp == fix.header.stamp), None)
    )
    yaw_deg = np.degrees(2 * np.arctan2(told.pose.pose.orientation.z, told.pose.pose.orientation.w))
    assert yaw_deg == pytest.approx(90.0, abs=10.0) and told.header.frame_id == "map"
    assert told.child_frame_id == "base_link" and told.pose.covariance[35] < np.radians(20.0) ** 2
    assert flight.status(lambda values: values["tracker"] == "tracking")[0] == DiagnosticStatus.OK


def test_transforms_are_published_or_the_diagnostics_say_what_is_missing(flight):
    fix = flight.until_tracking()
    try:
        from tf2_msgs.msg import TFMessage
    except ImportError:  # as with ROS from PyPI
        assert flight.status()[2]["TF"].startswith("tf2_msgs is not installed")
        return
    static = flight.peer.listen(TFMessage, "/tf_static", LATCHED)
    moving = flight.peer.listen(TFMessage, "/tf")
    flight.peer.wait_matched()
    fix = flight.step()
    told = flight.peer.wait_for(lambda: [t for m in moving for t in m.transforms if t.header.stamp == fix.header.stamp])
    assert (told[0].header.frame_id, told[0].child_frame_id) == ("map", "odom")
    flight.peer.wait_for(lambda: static)
    (found,) = static[0].transforms
    datum = open_map(flight.store).datum
    assert (found.header.frame_id, found.child_frame_id) == ("utm", "map")
    assert (found.transform.translation.x, found.transform.translation.y) == (datum.easting_m, datum.northing_m)


def test_positions_between_images_are_carried_on_by_odometry_with_its_stamps(flight):
    flight.until_tracking()
    flight.fixes.clear()
    stamp_ns = flight.stamp_ns + 200_000_000
    flight.way_m += 3.0
    flight.tell_instruments(stamp_ns)

    def told_at(at_ns):
        stamp = header_of(at_ns, "").stamp
        return next((message for message in flight.odometry if message.header.stamp == stamp), None)

    between = flight.peer.wait_for(lambda: told_at(stamp_ns), what="a position between images")
    flight.way_m -= 3.0
    moved_m = between.pose.pose.position.x - told_at(flight.stamp_ns).pose.pose.position.x
    assert moved_m == pytest.approx(3.0, abs=1.0)
    assert between.pose.covariance[0] > told_at(flight.stamp_ns).pose.covariance[0]
    flight.peer.wait_for(lambda: [fix for fix in flight.fixes if fix.header.stamp == between.header.stamp])


def test_an_odometry_that_goes_another_way_carries_no_positions_on_and_the_diagnostics_say_so(flight):
    begin_again(flight)
    flight.until_tracking()
    assert flight.status()[2]["odometry"] == "believed"
    for _ in range(20):
        flight.way_m -= 2.0 * STEP_M  # back, says odometry, as the drone flies on
        fix = flight.step()
        if fix.status.status == NavSatStatus.STATUS_FIX and flight.status()[2]["odometry"].startswith("left out"):
            break
    assert flight.error_m(fix) < float(flight.state()["radius (m)"])
    told_ns = flight.stamp_ns + 200_000_000
    flight.way_m -= 3.0
    flight.tell_instruments(told_ns)
    flight.peer.spin(1.0)  # twenty times as long as positions between images take
    assert not [message for message in flight.odometry if message.header.stamp == header_of(told_ns, "").stamp]
    flight.way_m = 0.0  # a new origin: the flight begins anew
    flight.stamp_ns += 10**12
    begin_again(flight)
    assert flight.step().status.status == NavSatStatus.STATUS_NO_FIX
    assert flight.status(lambda values: values["odometry"] == "believed")


def test_silence_has_a_reason_and_a_late_image_changes_nothing(flight):
    flight.until_tracking()
    blank = np.full((64, 64, 3), 90, np.uint8)
    if flight.step(image=blank, move=False).status.status != NavSatStatus.STATUS_FIX:
        assert flight.state()["reason"] == "blank image"
    fix = flight.until_tracking()
    late = flight.image(store_support.view(flight.store, flight.point[None])[0], flight.stamp_ns - 400_000_000)
    assert flight.ask_message(late).status.status == NavSatStatus.STATUS_NO_FIX
    said = flight.state(flight.stamp_ns - 400_000_000)
    assert said["reason"] == "late image" and said["state"] == "tracking"
    assert flight.error_m(fix) < 25.0
    assert int(flight.status(lambda values: "rejected: late image" in values)[2]["rejected: late image"]) >= 1


def test_a_bag_that_begins_again_begins_a_new_track(flight):
    flight.until_tracking()
    flight.point = store_support.track(1)[1][0].copy()
    flight.stamp_ns = store_support.START_NS - 10**12
    assert flight.step().status.status == NavSatStatus.STATUS_NO_FIX
    assert flight.state()["state"] == "searching"
    assert flight.error_m(flight.until_tracking()) < 25.0


def test_the_operator_can_ask_for_a_new_search_or_say_where_the_drone_is(flight):
    flight.until_tracking()
    begin_again(flight)
    assert flight.step().status.status == NavSatStatus.STATUS_NO_FIX
    assert flight.state()["state"] in ("searching", "unsure")
    pose = PoseWithCovarianceStamped(header=header_of(0, "odom"))
    flight.initial.publish(pose)
    flight.peer.wait_for(lambda: "initialpose is not used" in flight.process.log)
    pose.header.frame_id = "map"  # as RViz has it
    pose.pose.pose.position.x, pose.pose.pose.position.y = open_map(flight.store).datum.to_map(flight.point).tolist()
    pose.pose.covariance[0] = pose.pose.covariance[7] = 400.0
    flight.initial.publish(pose)
    flight.peer.wait_for(lambda: "the views decide" in flight.process.log)
    assert flight.error_m(flight.until_tracking()) < 25.0


def test_a_lying_gnss_is_named_and_latched_and_never_believed(flight):
    begin_again(flight)
    for _ in range(10):
        flight.step(gnss_offset=np.zeros(2), seconds=0.5)
    flight.peer.wait_for(lambda: flight.trust and flight.trust[-1].data, what="trust")
    for _ in range(16):
        fix = flight.step(gnss_offset=np.array([0.0, 150.0]), seconds=0.5)
        if fix.status.status == NavSatStatus.STATUS_FIX:
            assert flight.error_m(fix) < 25.0
    flight.peer.wait_for(lambda: not flight.trust[-1].data, what="distrust")
    values = flight.status(lambda values: values["GNSS"].startswith("jumped"))[2]
    assert float(values["GNSS offset (m)"]) > float(values["GNSS offset named from (m)"])
    late = flight.peer.listen(Bool, f"{flight.name}/gnss_trusted", LATCHED)
    flight.peer.wait_for(lambda: late and not late[-1].data, what="the latched message")


def test_trust_in_gnss_lapses_when_there_is_no_track_to_compare_it_with(flight):
    begin_again(flight)
    for k in range(60):  # a receiver that was caught before has to go with the track for a while
        flight.step(gnss_offset=np.zeros(2), seconds=0.5, move=k < 10)
        if flight.trust and flight.trust[-1].data:
            break
    flight.peer.wait_for(lambda: flight.trust[-1].data, what="trust")
    for _ in range(150):
        flight.stamp_ns += 200_000_000
        flight.fix(flight.stamp_ns, *flight.wgs84(flight.point))
        flight.peer.spin(0.2)
        if not flight.trust[-1].data:
            break
    assert not flight.trust[-1].data
    assert flight.status()[2]["GNSS"].startswith("unchecked")


def test_a_new_generation_does_not_disturb_the_track(flight):
    flight.until_tracking()
    store_support.commit_generation(flight.store, Localizer.open(flight.store).network)
    flight.status(lambda values: values["generation"] == "1")
    fix = flight.step()
    assert fix.status.status == NavSatStatus.STATUS_FIX and flight.error_m(fix) < 25.0
