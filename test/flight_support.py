"""A localization node under test, its inputs and its answers, over real DDS."""

from __future__ import annotations

import cv2
import numpy as np
import store_support
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseWithCovarianceStamped
from lifecycle_msgs.srv import ChangeState
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters
from ros_support import DISCOVERY_S, NodeProcess, Peer
from sensor_msgs.msg import CompressedImage, Imu, NavSatFix, NavSatStatus
from std_msgs.msg import Bool

from aerial_vpr_cl.geo.rotation import from_angles
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.nodes.living_node import LATCHED
from aerial_vpr_cl.nodes.messages import header_of

FOV_DEG = 60.0
HEIGHT_M = 150.0 / float(np.tan(np.radians(FOV_DEG / 2.0)))  # views are 300 m wide
STEP_M, STEP_S = 12.0, 1.0


def balanced(values):
    """Whether every image that came has been answered, rejected or dropped."""
    done = sum(int(values[name]) for name in ("positions published", "frames dropped", "frames rejected"))
    return int(values["images received"]) == done


def positions_of(fix, store):
    """Easting and northing of a NavSatFix."""
    return open_map(store).grid.projection.to_utm(fix.latitude, fix.longitude)


def offline(store, image):
    """The position the library gives an image that goes through JPEG, as the node's does."""
    decoded = cv2.cvtColor(cv2.imdecode(np.frombuffer(store_support.jpeg(image), np.uint8), 1), cv2.COLOR_BGR2RGB)
    return Localizer.open(store).localize(decoded)


class Flight:
    """A node under test, its inputs and its answers."""

    def __init__(self, folder, name, *, store=None, image_type=CompressedImage, **parameters):
        self.store = store_support.make_store(folder) if store is None else store
        transport = "compressed" if image_type is CompressedImage else "raw"
        given = {"image_transport": transport, "recording.mode": "service", "answer": "single_frame", **parameters}
        values = {"store": str(self.store), **given}
        self.name, self.image_type = name, image_type
        inputs = {"image": f"{name}/image", "fix": f"{name}/gnss", "__node": name}
        self.process = NodeProcess("localization_node", log=folder / f"{name}.log", parameters=values, remap=inputs)
        self.peer = Peer(f"{name}_peer")
        self.images = self.peer.publisher(image_type, f"{name}/image")
        self.gnss = self.peer.publisher(NavSatFix, f"{name}/gnss")
        self.fixes = self.peer.listen(NavSatFix, f"{name}/fix")
        self.poses = self.peer.listen(PoseWithCovarianceStamped, f"{name}/pose")
        self.reports = self.peer.listen(DiagnosticArray, "/diagnostics")

    def __enter__(self):
        self.process.__enter__()
        return self

    def __exit__(self, *_):
        self.peer.__exit__()
        self.process.__exit__()

    def ready(self):
        self.peer.wait_matched()
        self.ask(store_support.view(self.store, store_support.track(1)[1])[0], 1)
        return self

    def image(self, pixels, stamp_ns):
        message = self.image_type()
        message.header.frame_id = "camera"
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(int(stamp_ns), 10**9)
        if self.image_type is CompressedImage:
            message.format, message.data = "jpeg", store_support.jpeg(pixels)
        else:
            message.height, message.width, message.encoding = pixels.shape[0], pixels.shape[1], "rgb8"
            message.step, message.data = pixels.shape[1] * 3, pixels.tobytes()
        return message

    def ask(self, pixels, stamp_ns):
        """Send a frame and return the node's NavSatFix for it; sent again if DDS lost it."""
        return self.ask_message(pixels if hasattr(pixels, "header") else self.image(pixels, stamp_ns))

    def ask_message(self, message):
        asked = len(self.fixes)

        def answer():
            return next((fix for fix in self.fixes[asked:] if fix.header.stamp == message.header.stamp), None)

        for _ in range(20):
            self.images.publish(message)
            try:
                return self.peer.wait_for(answer, 3.0)
            except AssertionError:
                assert self.process.alive, self.process.log
        raise AssertionError(f"no answer\n{self.process.log}")

    def fix(self, stamp_ns, latitude, longitude, status=0):
        message = NavSatFix(latitude=float(latitude), longitude=float(longitude), altitude=500.0)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(int(stamp_ns), 10**9)
        message.status.status = status
        message.position_covariance = np.diag([4.0, 4.0, 4.0]).reshape(-1)
        message.position_covariance_type = NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN
        self.gnss.publish(message)

    def newest_report(self):
        """The last report so far, as (level, message, values), or None."""
        for report in reversed(self.reports):
            for status in report.status:
                if status.name == f"/{self.name}":
                    return status.level, status.message, {value.key: value.value for value in status.values}
        return None

    def status(self, fits=lambda values: True, limit_s=DISCOVERY_S):
        """The first report from now on whose values fit, as (level, message, values)."""
        self.reports.clear()

        def fitting():
            report = self.newest_report()
            return report if report and fits(report[2]) else None

        return self.peer.wait_for(fitting, limit_s, what="a fitting report")

    def set(self, **values):
        """Set parameters; returns the reasons of refusal, empty if accepted."""
        kinds = {
            bool: ("bool_value", 1),
            int: ("integer_value", 2),
            float: ("double_value", 3),
            str: ("string_value", 4),
        }
        request = SetParameters.Request()
        for name, value in values.items():
            field, number = kinds[type(value)]
            request.parameters.append(
                Parameter(name=name.replace("__", "."), value=ParameterValue(type=number, **{field: value}))
            )
        results = self.peer.call(SetParameters, f"{self.name}/set_parameters", request).results
        return "; ".join(result.reason for result in results if not result.successful)

    def change_state(self, transition):
        request = ChangeState.Request()
        request.transition.id = transition
        return self.peer.call(ChangeState, f"{self.name}/change_state", request).success


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
        return np.hypot(*(positions_of(fix, self.store) - self.point))

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
