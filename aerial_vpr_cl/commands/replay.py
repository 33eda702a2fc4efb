"""The verb replay: a bag through the localization node, and how good its answers were."""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aerial_vpr_cl.commands.ros import ros_needed
from aerial_vpr_cl.errors import MissionError, StoreError
from aerial_vpr_cl.evaluation.answers import read_answers
from aerial_vpr_cl.evaluation.score_tables import flight_values
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.knowledge.readiness import what_is_missing
from aerial_vpr_cl.mission.playback import open_playback
from aerial_vpr_cl.model.runtimes.names import RUNTIME_HELP, RUNTIMES
from aerial_vpr_cl.nodes.node_processes import end_process, start_process
from aerial_vpr_cl.nodes.node_settings import ALONE, TRACKED
from aerial_vpr_cl.progress import ProgressBar
from aerial_vpr_cl.settings import load_settings
from aerial_vpr_cl.share import share_file

if TYPE_CHECKING:  # ROS is imported only when nodes are about to run
    from aerial_vpr_cl.nodes.replay import ReplayReport

HELP = """Play a rosbag2 into the topics of the localization node, with /clock, and collect its answers into a bag.

Frames go to the topic `image` and GNSS fixes to `fix`. With --store a localization node is started for the replay,
apart from any other ROS nodes; without, the one that runs is used (--node). At the end the answers are compared with
the true positions in the bag, or with its GNSS.

  aerial-vpr replay BAG --store STORE --rate 0        every frame, as fast as the node answers
  aerial-vpr replay BAG --remap /odom:=odometry       to the node that runs, as flown, with another topic of the bag"""

END_S = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument("bag", type=Path, metavar="BAG", help="rosbag2 directory, .mcap or .db3; also a cut one")
    parser.add_argument("--store", type=Path, help="start a localization node on this store for the time of the replay")
    parser.add_argument("--params-file", type=Path, metavar="YAML", help="parameters of the node that --store starts")
    parser.add_argument(
        "--device", default="auto", help="where the network of that node runs: cpu, cuda (default: auto)"
    )
    parser.add_argument("--runtime", choices=RUNTIMES, help=f"with --store: {RUNTIME_HELP}")
    parser.add_argument("--result", default="", metavar="DIR", help="new bag for the answers (default: BAG_replayed)")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="with --store: also draw track, errors, reliability")
    parser.add_argument(
        "--rate", type=float, default=1.0, metavar="X", help="speed; 0: as fast as the node answers (default: 1)"
    )
    parser.add_argument("--image-topic", default="", metavar="TOPIC", help="frames in the bag (default: found by type)")
    parser.add_argument("--fix-topic", default="", metavar="TOPIC", help="fixes in the bag (default: found by type)")
    parser.add_argument(
        "--remap", nargs="+", action="extend", metavar="A:=B", help="play topic A of the bag as topic B, or besides"
    )
    parser.add_argument("--decompress", action="store_true", help="publish compressed frames as raw images")
    parser.add_argument("--node", default="localization", metavar="NAME", help="node to wait for and listen to")
    parser.add_argument(
        "--clock",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="publish the bag's time on /clock; of several replays at once only one may",
    )
    parser.add_argument(
        "--answer",
        choices=(TRACKED, ALONE),
        help="with --store: follow the drone over the map, or answer every frame alone (default: as the node does)",
    )
    parser.add_argument("--start", type=float, default=0.0, metavar="S", help="begin S seconds after the first frame")
    parser.add_argument("--duration", type=float, default=0.0, metavar="S", help="play S seconds (default: all)")
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="S", help="wait so long for the node; 0: play at once (default: 60)"
    )


def run(args: argparse.Namespace) -> None:
    """Play, and print what came of it."""
    with ros_needed():
        import rclpy
        from rclpy.node import Node
        from rclpy.signals import SignalHandlerOptions

        from aerial_vpr_cl.nodes.replay import Replay, ReplaySettings
        from aerial_vpr_cl.nodes.replay_node import stopped_by_signals

    settings = load_settings(
        ReplaySettings,
        bag=str(args.bag),
        result=args.result,
        rate=args.rate,
        image_topic=args.image_topic,
        fix_topic=args.fix_topic,
        routes=args.remap,
        image_transport="raw" if args.decompress else None,
        node=args.node,
        clock=args.clock,
        start_s=args.start,
        duration_s=args.duration,
        wait_s=args.wait,
    )
    progress = ProgressBar()
    with stopped_by_signals() as interrupted, own_node(args) as own:

        def stopping() -> bool:
            own.check()
            return interrupted()

        context = rclpy.Context()
        rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
        node = Node("replay", context=context, cli_args=["--ros-args", *own.ros_arguments], use_global_arguments=False)
        try:
            report = Replay(node, settings, progress=progress, stopping=stopping).run()
        finally:
            progress.close()
            node.destroy_node()
            context.try_shutdown()
    print(report)
    keep_figures(args, report)
    if report.interrupted:
        raise KeyboardInterrupt


def keep_figures(args: argparse.Namespace, report: ReplayReport) -> None:
    """Write what --json and --plots ask for, as `evaluate` does."""
    projection = open_map(args.store).grid.projection if args.store is not None else None
    answers = read_answers(report.result, report.topic, projection) if report.answered else None
    missions = [flight_values(answers)] if answers else []
    args.json.write({"result": report.result, "sent": report.sent, "answered": report.answered, "missions": missions})
    if args.plots is not None and args.store is not None and answers:
        from aerial_vpr_cl.evaluation.track_pictures import draw_flights

        draw_flights(open_map(args.store).satellite, [answers], args.plots)


@dataclass
class OwnNode:
    """The localization node that was started for this replay, if any, and where in the ROS graph it is."""

    process: subprocess.Popen[bytes] | None = None
    ros_arguments: tuple[str, ...] = ()

    def check(self) -> None:
        """MissionError if it has died."""
        if self.process is not None and self.process.poll() is not None:
            raise MissionError(
                f"the localization node ended with code {self.process.returncode}; its last words are above"
            )


@contextmanager
def own_node(args: argparse.Namespace) -> Iterator[OwnNode]:
    """Start a localization node on --store in a namespace of its own, with a /clock of its own, and end it after."""
    if args.store is None:
        yield OwnNode()
        return
    if missing := what_is_missing(str(args.store)):
        raise StoreError(missing)
    playback = open_playback(
        args.bag,
        image_topic=args.image_topic or None,
        fix_topic=args.fix_topic or None,
        transport="raw" if args.decompress else "as recorded",
    )
    namespace = f"/replay_{os.getpid()}"
    ros_arguments = ("-r", f"__ns:={namespace}", "-r", f"/clock:={namespace}/clock")
    told = list(ros_arguments)
    if args.params_file is not None:
        told += ["--params-file", str(args.params_file)]
    parameters = {
        "store": str(args.store),
        **playback.parameters(),
        "use_sim_time": "true",
        "recording.mode": "never",  # a flight is learnt from once
        **({"answer": args.answer} if args.answer else {}),
        "device": args.device,
        **({"runtime": args.runtime} if args.runtime else {}),
    }
    for name, value in parameters.items():
        told += ["-p", f"{name}:={str(value).lower() if isinstance(value, bool) else value}"]
    told += ["-r", f"__node:={args.node}"]
    if playback.transport == "raw" and (profile := share_file("config/fastdds_shared_memory.xml")):
        os.environ.setdefault("FASTRTPS_DEFAULT_PROFILES_FILE", str(profile))  # both processes need it
    process = start_process("localization_node", told)
    try:
        yield OwnNode(process, ros_arguments)
    finally:
        end_process(process, (END_S,) * 3)
