"""The autopilot bridge: one MAVLink cable in place of four drivers, and the way back for the answer.

    MAVLink  ─►  autopilot_bridge  ─►  imu  height  odometry  fix  landed
    localization/fix, localization/state  ─►  autopilot_bridge  ─►  MAVLink, or fmu/in/aux_global_position (px4_msgs)

What it can send at all stands in autopilot/link.py; it never arms and never touches mode, mission or controls.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Imu, NavSatFix, NavSatStatus, Range
from std_msgs.msg import Bool

from aerial_vpr_cl.autopilot.answers import Position
from aerial_vpr_cl.autopilot.link import Link
from aerial_vpr_cl.autopilot.px4_messages import position_message, position_type, topic_of
from aerial_vpr_cl.autopilot.reporter import AUXILIARY, Reporter, ReportSettings
from aerial_vpr_cl.autopilot.reset_gate import ResetSettings
from aerial_vpr_cl.autopilot.telemetry import (
    Attitude,
    GnssFix,
    Height,
    Landed,
    LocalPosition,
    Telemetry,
    Told,
    wanted_rates_hz,
)
from aerial_vpr_cl.autopilot.transport import check_address
from aerial_vpr_cl.mission.messages import stamp_of
from aerial_vpr_cl.nodes.autopilot_messages import fix_message, height_message, imu_message, odometry_message
from aerial_vpr_cl.nodes.living_node import LATCHED, LivingNode
from aerial_vpr_cl.nodes.running import run_node
from aerial_vpr_cl.settings import setting


@dataclass(frozen=True)
class BridgeSettings:
    """Where the autopilot is, and what its instruments are worth."""

    autostart: bool = setting(True, "configure and activate without being asked; false: wait for a lifecycle manager")
    address: str = setting(
        "udp:0.0.0.0:14550", "udp:HOST:PORT to listen, udpout:HOST:PORT to call, serial:/dev/ttyAMA0:921600"
    )
    system_id: int = setting(1, "our MAVLink system, the vehicle's own: we are a part of it", low=1, high=255)
    signing_passphrase: str = setting("", "sign what is sent and refuse what is not signed; empty: no signing")
    heading_sigma_deg: float = setting(3.0, "standard deviation of the filter's heading", low=0.1, high=180.0)
    tilt_sigma_deg: float = setting(1.0, "standard deviation of its pitch and roll", low=0.05, high=45.0)
    base_frame_id: str = setting("base_link", "frame of the drone's body")


PARAMETERS = {"": (BridgeSettings, ReportSettings), "reset": (ResetSettings,)}
FIXED = ("autostart", "address", "system_id", "signing_passphrase", "output", "sensor_id")


class AutopilotBridgeNode(LivingNode):
    """Listens in a thread of its own; answers go out from the callbacks that hear them."""

    def __init__(self, **options: Any) -> None:
        super().__init__("autopilot_bridge", PARAMETERS, FIXED, **options)
        check_address(self._bridge.address)
        self._auxiliary_type = position_type() if self._report.output == AUXILIARY else None
        self._link: Link | None = None
        self._reporter: Reporter | None = None
        self._listener: threading.Thread | None = None
        self._stopping = threading.Event()
        self._reporting = threading.Lock()
        self._entities: list[Any] = []
        self._auxiliary_out: Any = None
        self._ticking: Any = None
        self._sent = 0
        self._told: dict[str, int] = {}

    @property
    def _bridge(self) -> BridgeSettings:
        return self.settings[BridgeSettings]

    @property
    def _report(self) -> ReportSettings:
        return self.settings[ReportSettings]

    def connect(self) -> None:
        """Open the cable and the topics on both sides of it."""
        bridge = self._bridge
        self._link = Link(
            bridge.address,
            system_id=bridge.system_id,
            signing_passphrase=bridge.signing_passphrase,
            now_ns=self._now_ns,
        )
        self._imu_out = self.create_publisher(Imu, "imu", 10)
        self._height_out = self.create_publisher(Range, "height", 10)
        self._odometry_out = self.create_publisher(Odometry, "odometry", 10)
        self._fix_out = self.create_publisher(NavSatFix, "fix", 10)
        self._landed_out = self.create_publisher(Bool, "landed", LATCHED)
        publishers = (self._imu_out, self._height_out, self._odometry_out, self._fix_out, self._landed_out)
        self._entities = [(self.destroy_publisher, publisher) for publisher in publishers]
        if self._auxiliary_type is not None:
            self._auxiliary_out = self.create_publisher(self._auxiliary_type, topic_of(self._auxiliary_type), 10)
            self._entities.append((self.destroy_publisher, self._auxiliary_out))
        answers = self.create_subscription(NavSatFix, "localization/fix", self._on_answer, 10)
        states = self.create_subscription(DiagnosticStatus, "localization/state", self._on_state, 10)
        self._entities += [(self.destroy_subscription, answers), (self.destroy_subscription, states)]
        with self._reporting:  # settings that change meanwhile are not missed
            self._ticking = self.create_timer(1.0 / self._report.rate_hz, self._tick, clock=self.steady)
            self._reporter = Reporter(self._report, self.settings[ResetSettings], self._link.clock)
        self._entities.append((self.destroy_timer, self._ticking))
        self._stopping.clear()
        self._listener = threading.Thread(target=self._listen, name="autopilot", daemon=True)
        self._listener.start()

    def disconnect(self) -> None:
        """Close the cable."""
        self._stopping.set()
        if self._listener is not None:
            self._listener.join(2.0)
        with self._reporting:
            self._reporter = None
        while self._entities:
            destroy, entity = self._entities.pop()
            destroy(entity)
        if self._link is not None:
            self._link.close()
        self._link = self._listener = None

    def settings_changed(self) -> None:
        """What is sent from now on goes by the new settings."""
        with self.edge("settings"), self._reporting:
            if self._reporter is not None:
                self._reporter.change(self._report, self.settings[ResetSettings])
                period_ns = int(1e9 / self._report.rate_hz)
                if period_ns != self._ticking.timer_period_ns:
                    self._ticking.timer_period_ns = period_ns
                    self._ticking.reset()

    # From the autopilot

    def _listen(self) -> None:
        link, reporter = self._link, self._reporter
        assert link is not None and reporter is not None
        telemetry = Telemetry(link.clock)
        while not self._stopping.is_set():
            with self.edge("autopilot"):
                for message, arrived_ns in link.poll(0.05):
                    for told in telemetry.take(message, arrived_ns, link.armed):
                        with self._reporting:
                            reporter.told(told)
                        if self.is_active:
                            self._publish(told)
                link.ask_for(wanted_rates_hz(link.autopilot))

    def _publish(self, told: Told) -> None:
        kind = type(told).__name__
        self._told[kind] = self._told.get(kind, 0) + 1
        if isinstance(told, Attitude):
            sigmas = self._bridge.tilt_sigma_deg, self._bridge.heading_sigma_deg
            self._imu_out.publish(imu_message(told, self._bridge.base_frame_id, *sigmas))
        elif isinstance(told, Height):
            self._height_out.publish(height_message(told, self._bridge.base_frame_id))
        elif isinstance(told, LocalPosition):
            self._odometry_out.publish(odometry_message(told, self._bridge.base_frame_id))
        elif isinstance(told, GnssFix):
            self._fix_out.publish(fix_message(told))
        elif isinstance(told, Landed):
            self._landed_out.publish(Bool(data=told.landed))

    # To the autopilot

    def _on_state(self, message: DiagnosticStatus) -> None:
        with self.edge("state"), self._reporting:
            if self.is_active and self._reporter is not None:
                self._send(self._reporter.state(_name_of(message), message.message, self._now_ns()))

    def _on_answer(self, message: NavSatFix) -> None:
        with self.edge("answer"), self._reporting:
            if not self.is_active or self._reporter is None or self._link is None:
                return
            if message.status.status < NavSatStatus.STATUS_FIX:
                self._reporter.silent()
                return
            covariance = np.array(message.position_covariance).reshape(3, 3)[:2, :2]
            position = Position(stamp_of(message), message.latitude, message.longitude, covariance)
            self._send(self._reporter.answer(position, self._link.vehicle_system, self._now_ns()))

    def _tick(self) -> None:
        with self.edge("tick"), self._reporting:
            if self.is_active and self._reporter is not None and self._link is not None:
                self._send(self._reporter.tick(self._link.vehicle_system, self._now_ns()))

    def _send(self, messages: list[Any]) -> None:
        link = self._link
        for message in messages:
            if isinstance(message, Position):
                told = position_message(self._auxiliary_type, message, self._report.sensor_id, self._now_ns())
                self._auxiliary_out.publish(told)
                self._sent += 1
            elif link is not None and link.is_connected:
                link.send(message)
                self._sent += message.get_type() != "STATUSTEXT"

    # Health

    def health(self) -> tuple[bytes, str]:
        """Level and words of the diagnostics."""
        if self._link is None:
            return DiagnosticStatus.ERROR, f"{self.state}: not connected"
        if not self._link.is_connected:
            return DiagnosticStatus.ERROR, f"no autopilot is heard on {self._bridge.address}"
        if not self._link.clock.is_synchronised:
            return DiagnosticStatus.WARN, "the autopilot does not answer TIMESYNC: stamps carry the cable's delay"
        return DiagnosticStatus.OK, "connected"

    def values(self) -> dict[str, Any]:
        """What the diagnostics say besides."""
        link = self._link
        if link is None:
            return {}
        uncertainty_ns = link.clock.uncertainty_ns
        return {
            "address": link.address,
            "armed": link.armed,
            "clock uncertainty ms": "" if uncertainty_ns is None else f"{uncertainty_ns / 1e6:.1f}",
            "positions sent": self._sent,
            **{f"heard {name}": count for name, count in sorted(self._told.items())},
            **{f"refused {reason}": count for reason, count in sorted(link.counts.items())},
        }

    def _now_ns(self) -> int:
        return int(self.get_clock().now().nanoseconds)


def _name_of(status: DiagnosticStatus) -> str:
    """The state's name: a value of the status, so that its name can be the node's."""
    return next((entry.value for entry in status.values if entry.key == "state"), status.message)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node."""
    return run_node(AutopilotBridgeNode, args)


if __name__ == "__main__":
    sys.exit(main())
