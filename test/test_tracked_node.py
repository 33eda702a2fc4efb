"""The localization node as it flies: the drone followed over the map, silent with a reason, GNSS watched."""

import numpy as np
import pytest
import store_support
from diagnostic_msgs.msg import DiagnosticStatus
from flight_support import Flight
from geometry_msgs.msg import PoseWithCovarianceStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Imu, NavSatStatus
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.nodes.living_node import LATCHED
from aerial_vpr_cl.nodes.messages import header_of

FOV_DEG = 60.0
HEIGHT_M = 150.0 / float(np.tan(np.radians(FOV_DEG / 2.0)))  # views are 300 m wide
STEP_M, STEP_S = 12.0, 1.0


class TrackedFlight(Flight):
    """A drone with compass, odometry and known height that flies east in the map's middle."""

    def __init__(self, folder, name, **parameters):
        sensors = {"sensors.height_m": HEIGHT_M, "sensors.horizontal_fov_deg": FOV_DEG, "sensors.height_sigma": 0.02}
        super().__init__(folder, name, answer="tracked", **sensors, **parameters)
        self.imu = self.peer.publisher(Imu, "imu", 50)
        self.odometry_in = self.peer.publisher(Odometry, "odometry", 50)
        self.initial = self.peer.publisher(PoseWithCovarianceStamped, "initialpose", 10)
        self.states = self.peer.listen(DiagnosticStatus, f"{name}/state")
        self.odometry = self.peer.listen(Odometry, f"{name}/odometry")
        self.trust = self.peer.listen(Bool, f"{name}/gnss_trusted", LATCHED)
        self.point = store_support.track(1)[1][0].copy()
        self.stamp_ns = store_support.START_NS
        self.way_m = 0.0

    def step(self, *, move=True, gnss_offset=None, image=None, seconds=STEP_S):
        """Fly on and look; returns the node's NavSatFix."""
        self.stamp_ns += round(seconds * 1e9)
        if move:
            self.point = self.point + np.array([STEP_M, 0.0])
            self.way_m += STEP_M
        self.tell_instruments(self.stamp_ns - 50_000_000)
        if gnss_offset is not None:
            self.fix(self.stamp_ns, *self.wgs84(self.point + gnss_offset))
        self.peer.spin(0.02)
        return self.ask(store_support.view(self.store, self.point[None])[0] if image is None else image, self.stamp_ns)

    def tell_instruments(self, stamp_ns):
        attitude, moved = Imu(header=header_of(stamp_ns, "base_link")), Odometry(header=header_of(stamp_ns, "odom"))
        for message, rotation in ((attitude.orientation, from_angles(0.0)), (moved.pose.pose.orientation, np.eye(3))):
            yaw = np.arctan2(rotation[1, 0], rotation[0, 0])
            message.z, message.w = float(np.sin(yaw / 2)), float(np.cos(yaw / 2))
        # The nose points north while the drone flies east: to its right. Odometry has its own north.
        moved.pose.pose.position.y = -self.way_m
        self.imu.publish(attitude)
        self.odometry_in.publish(moved)

    def wgs84(self, point):
        return open_map(self.store).grid.projection.to_wgs84(point)

    def error_m(self, fix):
        return np.hypot(*(open_map(self.store).grid.projection.to_utm(fix.latitude, fix.longitude) - self.point))

    def state(self, stamp_ns=None):
        """What the node said of a frame, the last one unless told."""
        wanted = self.stamp_ns if stamp_ns is None else stamp_ns
        stamp = f"{wanted // 10**9}.{wanted % 10**9:09d}"

        def said():
            for status in reversed(self.states):
                values = {value.key: value.value for value in status.values}
                if values["stamp"] == stamp:
                    return values
            return None

        return self.peer.wait_for(said, what=f"a state of {stamp}")

    def until_tracking(self, **options):
        for _ in range(12):
            fix = self.step(**options)
            if fix.status.status == NavSatStatus.STATUS_FIX:
                return fix
        raise AssertionError(f"never tracked: {self.states}")


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracked")
    with TrackedFlight(folder, "tracked", publish_rate_hz=20.0, publish_tf=True) as flight:
        flight.peer.wait_matched()
        flight.status(lambda values: values["state"] == "active", limit_s=120.0)
        yield flight


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


def test_a_new_generation_does_not_disturb_the_track(flight):
    flight.until_tracking()
    store_support.commit_generation(flight.store, Localizer.open(flight.store).network)
    flight.status(lambda values: values["generation"] == "1")
    fix = flight.step()
    assert fix.status.status == NavSatStatus.STATUS_FIX and flight.error_m(fix) < 25.0
