"""Plays a bag into the inputs of the localization node and collects its answers into a result bag.

publishes   image, fix, imu, height, camera_info, odometry
                           as recorded, at the recorded pace times `rate`; rate 0: each frame waits for its answer
            /clock         the bag's time, for nodes with use_sim_time
            more           any topic of the bag, by routes BAG_TOPIC:=TOPIC
subscribes  <node>/fix, <node>/pose    the answers; they go into the bag `result` beside the fixes and true positions
asks        <node>/get_state           until the localization node is active
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import rclpy
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from aerial_vpr_cl.errors import AerialVprError, SettingsError
from aerial_vpr_cl.nodes.parameters import NodeSettings
from aerial_vpr_cl.nodes.replay import Replay, ReplaySettings
from aerial_vpr_cl.nodes.running import forward_logging
from aerial_vpr_cl.progress import ProgressBar


@contextmanager
def stopped_by_signals() -> Iterator[Callable[[], bool]]:
    """SIGINT and SIGTERM, once or often, only set a flag; what is under way ends in good order."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, _: received.append(number)) for number in numbers]
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in zip(numbers, before):
            signal.signal(number, handler)


def main(args: list[str] | None = None) -> int:
    """Play the bag of the parameter `bag`; exit code 0 also after a signal, 1 after an error."""
    with stopped_by_signals() as stopping:
        rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
        node = Node("replay", automatically_declare_parameters_from_overrides=True)
        progress = ProgressBar()
        try:
            forward_logging(node)
            settings = NodeSettings(node, {"": [ReplaySettings]}, fixed=[""])[ReplaySettings]
            if not settings.bag:
                raise SettingsError("no bag; give one with `-p bag:=PATH`")
            report = Replay(node, settings, progress=progress, stopping=stopping).run()
            progress.close()
            for line in str(report).splitlines():
                node.get_logger().info(line)
            return 0
        except (AerialVprError, ParameterException) as error:
            progress.close()
            node.get_logger().error(str(error))
            return 1
        finally:
            node.destroy_node()
            rclpy.try_shutdown()
