"""A localization node under test, its inputs and its answers, over real DDS."""

from __future__ import annotations

import numpy as np
import store_support
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseWithCovarianceStamped
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters
from ros_support import NodeProcess, Peer
from sensor_msgs.msg import CompressedImage, NavSatFix


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

    def status(self, fits=lambda values: True, limit_s=30.0):
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
