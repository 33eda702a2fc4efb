"""One replay: a bag into the inputs of the localization node, and its answers into a result bag."""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from builtin_interfaces.msg import Time
from lifecycle_msgs.srv import GetState
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock

from aerial_vpr_cl.errors import AerialVprError, MissionError
from aerial_vpr_cl.evaluation.answers import DIAGNOSTIC_STATUS, LiveScore, judge_answers
from aerial_vpr_cl.mission.bag_writer import TRUTH_TOPIC, MissionWriter
from aerial_vpr_cl.mission.gnss import Fix
from aerial_vpr_cl.mission.messages import NAV_SAT_FIX, deserialize
from aerial_vpr_cl.mission.mission import mission_facts
from aerial_vpr_cl.mission.playback import TRANSPORTS, Pace, header_stamp_ns, open_playback
from aerial_vpr_cl.progress import Progress, silent
from aerial_vpr_cl.settings import setting

POSE = "geometry_msgs/msg/PoseWithCovarianceStamped"
ANSWERS = {"fix": NAV_SAT_FIX, "pose": POSE, "state": DIAGNOSTIC_STATUS}
"""Outputs of the localization node that are collected. `fix` comes for every frame, `pose` for accepted ones."""
CLOCK_PERIOD_S = 0.02
QUIET_S = 0.5
"""The end of a replay: nothing has come from the node for this long after its last answer."""
# Reliable towards whoever asks for it; a subscriber to sensor data, such as the localization node, gets best effort.
_OUTPUT_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
_ANSWER_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.RELIABLE)


@dataclass(frozen=True)
class ReplaySettings:
    """What is played, how fast, and where the answers go."""

    bag: str = setting("", "rosbag2 to play: directory, .mcap or .db3")
    result: str = setting("", "new bag for the answers of the node; empty: named after the bag, in this directory")
    rate: float = setting(
        1.0, "1: as flown, 2: twice as fast, 0: as fast as the node answers, no frame lost", low=0.0, high=1000.0
    )
    image_topic: str = setting("", "topic of the frames in the bag; empty: found by type")
    fix_topic: str = setting("", "topic of the GNSS fixes in the bag; empty: found by type")
    # One empty text stands for none: ROS cannot tell what an empty list is a list of.
    routes: tuple[str, ...] = setting(("",), "BAG_TOPIC:=TOPIC, play a topic of the bag under another name, or besides")
    image_transport: str = setting(
        "as recorded", "raw: decompress frames before they are published", choices=TRANSPORTS
    )
    node: str = setting("localization", "name of the localization node")
    clock: bool = setting(True, "publish the bag's time on /clock, which only one replay at a time may do")
    start_s: float = setting(0.0, "begin this long after the first frame, in seconds", low=0.0)
    duration_s: float = setting(0.0, "play this much of the bag, in seconds; 0: all", low=0.0)
    wait_s: float = setting(60.0, "how long to wait for the node, in seconds; 0: play to whoever listens", low=0.0)
    answer_timeout_s: float = setting(10.0, "rate 0: longest wait for the answer to a frame, in seconds", low=0.1)


@dataclass(frozen=True)
class ReplayReport:
    """What came of a replay."""

    result: Path
    sent: int
    answered: int
    interrupted: bool
    topic: str

    def __str__(self) -> str:
        text = f"{self.result}: {self.sent} frames sent, {self.answered} answered"
        text += ", interrupted\n" if self.interrupted else "\n"
        return text + str(judge_answers(self.result, self.topic)) if self.answered else text + "no answers to judge"


class Interrupted(AerialVprError):
    """The operator ended the replay."""


class Replay:
    """One replay by a node that is there already. `stopping` is asked often and ends it early, the result bag whole."""

    def __init__(
        self,
        node: Node,
        settings: ReplaySettings,
        *,
        progress: Progress = silent,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._node, self._settings = node, settings
        self._progress, self._stopping = progress, stopping
        self._playback = playback = open_playback(
            settings.bag,
            image_topic=settings.image_topic or None,
            fix_topic=settings.fix_topic or None,
            routes=[route for route in settings.routes if route],
            transport=settings.image_transport,
            start_s=settings.start_s,
            duration_s=settings.duration_s,
        )
        self._result = result_path(settings)
        self._writer: MissionWriter | None = None
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(node)
        self._pace = Pace(settings.rate)
        self._now_ns = 0
        self._heard_s = time.monotonic()
        self._sent: dict[int, None] = {}
        self._awaited_ns: int | None = None  # stamp of the newest frame, until it is answered
        self._answered: set[int] = set()
        truth = [raw for raw in playback.references() if raw.topic == TRUTH_TOPIC]
        self._score = LiveScore(Fix.from_message(deserialize(raw.data, NAV_SAT_FIX)) for raw in truth)
        # The answers are subscribed to before the service is asked for: when it replies, the node knows them too.
        for name, message_type in ANSWERS.items():
            self._listen(name, message_type)
        self._state = node.create_client(GetState, f"{settings.node}/get_state")
        self._time = node.create_publisher(Clock, "/clock", _OUTPUT_QOS) if settings.clock else None
        self._outputs = {
            topic: node.create_publisher(message_class(message_type), topic, _OUTPUT_QOS)
            for topic, message_type in playback.published().items()
        }
        self._frames = self._outputs[playback.routes[playback.image_topic]]

    def run(self) -> ReplayReport:
        """Wait for the node, play, wait for its last answers, and close the result bag."""
        settings, interrupted = self._settings, False
        name, modality = mission_facts(settings.bag)
        try:
            if settings.wait_s > 0.0:
                self._wait_until_ready()
            with MissionWriter(self._result, name=f"{name} replayed", modality=modality) as self._writer:
                for raw in self._playback.references():
                    self._writer.write_serialized(raw.topic, raw.message_type, raw.received_ns, raw.data)
                self._play()
                if settings.wait_s > 0.0:
                    self._wait_for_answer()
                    self._spin_until(lambda: time.monotonic() - self._heard_s > QUIET_S, settings.answer_timeout_s)
        except Interrupted:
            interrupted = True
        finally:
            self._executor.remove_node(self._node)
        answered = len(self._answered & self._sent.keys())
        return ReplayReport(self._result, len(self._sent), answered, interrupted, answer_topic(settings, "fix"))

    def _wait_until_ready(self) -> None:
        """The node is active, hears the frames and is heard: its reply shows that it knows our subscriptions."""
        deadline = time.monotonic() + self._settings.wait_s
        state = ""
        while True:
            state = self._ask_state() or state
            if state == "active" and self._frames.get_subscription_count():
                return
            if time.monotonic() > deadline:
                raise MissionError(self._why_not_ready(state))
            self._spin_until(lambda: False, 0.2)

    def _ask_state(self, limit_s: float = 2.0) -> str:
        """The node's lifecycle state; empty if it does not reply."""
        if not self._state.service_is_ready():
            return ""
        reply = self._state.call_async(GetState.Request())
        return reply.result().current_state.label if self._spin_until(reply.done, limit_s) else ""

    def _why_not_ready(self, state: str) -> str:
        name, waited = self._settings.node, f"after {self._settings.wait_s:.0f} s"
        if not state:
            return (
                f"no localization node '{name}' {waited}; start one with `ros2 launch aerial_vpr_cl flight.launch.py`, "
                "give --store to have one started, or name it with --node"
            )
        if state != "active":
            return f"node '{name}' is {state} {waited}; look at its log, then `ros2 lifecycle set /{name} activate`"
        others = {info.topic_type for info in self._node.get_subscriptions_info_by_topic(self._frames.topic_name)}
        found = f"only {', '.join(sorted(others))} is subscribed to there" if others else "nobody subscribes to it"
        return (
            f"the frames ({self._playback.image_type}) on {self._frames.topic_name} are not heard: {found} {waited}; "
            "match the node's image_transport and its remapping of 'image'"
        )

    def _play(self) -> None:
        in_step = self._settings.rate == 0.0 and self._settings.wait_s > 0.0
        for cue in self._playback:
            self._wait_for_moment(cue.time_ns)
            self._tell_time(cue.time_ns)
            if cue.is_frame:
                if self._settings.wait_s > 0.0 and not self._frames.get_subscription_count():
                    raise MissionError(f"nobody listens to {self._frames.topic_name} any more; look at the node's log")
                self._sent[cue.stamp_ns] = None
                self._awaited_ns = cue.stamp_ns
            self._outputs[cue.topic].publish(cue.data)
            if not cue.is_frame:
                continue
            # A frame that cannot be decoded is not answered, which is no reason to give up as long as the node lives.
            if in_step and not self._wait_for_answer() and not self._ask_state(self._settings.answer_timeout_s):
                raise MissionError(f"node '{self._settings.node}' answers no more; look at its log")
            figures = {"answered": float(len(self._answered)), **self._score.figures}
            self._progress("replay", len(self._sent), self._playback.frames, **figures)

    def _wait_for_moment(self, time_ns: int) -> None:
        while (left_s := self._pace.seconds_until(time_ns)) > 0.0:
            self._spin_until(lambda: False, min(left_s, CLOCK_PERIOD_S))
            self._tell_time(min(self._pace.bag_time_ns(), time_ns))
        self._spin_until(lambda: True, 0.0)

    def _wait_for_answer(self) -> bool:
        stamp_ns = self._awaited_ns
        if stamp_ns is None or self._spin_until(lambda: self._awaited_ns is None, self._settings.answer_timeout_s):
            return True
        self._node.get_logger().warning(f"the frame of {stamp_ns / 1e9:.3f} s was not answered")
        return False

    def _spin_until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Receive until the condition holds, for at most this long; whether it holds. Raises if told to stop."""
        end_s = time.monotonic() + limit_s
        while True:
            if self._stopping():
                raise Interrupted("interrupted")
            left_s = end_s - time.monotonic()
            self._executor.spin_once(timeout_sec=max(0.0, min(left_s, 0.1)))
            if condition():
                return True
            if left_s <= 0.0:
                return False

    def _tell_time(self, time_ns: int) -> None:
        self._now_ns = time_ns
        if self._time is None:
            return
        sec, nanosec = divmod(time_ns, 1_000_000_000)
        self._time.publish(Clock(clock=Time(sec=sec, nanosec=nanosec)))

    def _listen(self, name: str, message_type: str) -> None:
        topic = answer_topic(self._settings, name)

        def receive(data: bytes) -> None:
            self._heard_s = time.monotonic()
            if self._writer is None:
                return
            if name == "fix":
                stamp_ns = header_stamp_ns(data)
                self._answered.add(stamp_ns)
                self._awaited_ns = None if stamp_ns == self._awaited_ns else self._awaited_ns
                self._score.add(Fix.from_message(deserialize(data, NAV_SAT_FIX)))
            # In the bag's time: stamp and time of receipt together tell the latency.
            self._writer.write_serialized(topic, message_type, self._now_ns, data)

        self._node.create_subscription(
            message_class(message_type), f"{self._settings.node}/{name}", receive, _ANSWER_QOS, raw=True
        )


def answer_topic(settings: ReplaySettings, name: str) -> str:
    """What an output of the localization node is called in the result bag, whatever namespace it ran in."""
    return f"/{settings.node.strip('/')}/{name}"


def result_path(settings: ReplaySettings) -> Path:
    """Where the result bag goes: as told, or a new name in this directory."""
    if settings.result:
        if Path(settings.result).exists():
            raise MissionError(f"{settings.result}: exists already; choose another name or remove it")
        return Path(settings.result)
    name = f"{Path(settings.bag).resolve().stem}_replayed"
    taken = (Path(name if number == 1 else f"{name}_{number}") for number in itertools.count(1))
    return next(path for path in taken if not path.exists())


def message_class(message_type: str) -> type:
    """The class of a message type such as sensor_msgs/msg/Imu."""
    package, _, name = message_type.split("/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError):
        raise MissionError(
            f"message type {message_type} is not installed; source its package or leave it out"
        ) from None
