"""aerial-vpr watch: the report's page while the drone flies, or while a bag is replayed."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerial_vpr_cl.commands.ros import ros_needed
from aerial_vpr_cl.knowledge.map_folder import MapFolder, open_map
from aerial_vpr_cl.page.flight_page import MAP_SIDE_PX, Page, page_text
from aerial_vpr_cl.page.live_flight import LiveFlight
from aerial_vpr_cl.page.live_server import LiveServer
from aerial_vpr_cl.page.runs import FlightRun, Ground
from aerial_vpr_cl.page.thumbnails import PICTURE_PX, small_jpeg

HELP = """Serve a page that shows, while the drone flies, what the localization node says: track and ellipses on the map
of a store, silences by reason, camera and map, figures over time. Read only; for browsers on this computer, unless
--host opens it to others: there is no password. Ctrl-C ends it.

  aerial-vpr watch STORE                     the node of this ROS domain that publishes answers
  aerial-vpr replay BAG --store STORE        beside it, in another terminal: the replay is shown"""

ASK_S = 1.0
"""How often the page asks for what is new."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument("store", type=Path, help="store whose map is flown over")
    parser.add_argument("--node", default="", metavar="NAME", help="full name of the node (default: the first found)")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8088, metavar="N", help="0: any that is free (default: 8088)")


def run(args: argparse.Namespace) -> None:
    """Serve until a signal."""
    with ros_needed():
        import rclpy
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node
        from rclpy.signals import SignalHandlerOptions

        from aerial_vpr_cl.nodes.flight_watch import FlightWatch
        from aerial_vpr_cl.nodes.replay_node import stopped_by_signals

    folder = open_map(args.store)
    west, south, _, _ = folder.satellite.bounds
    flight = LiveFlight(np.array([west, south]), lambda position: map_at(folder, position))
    with stopped_by_signals() as stopping:
        server = LiveServer(live_page(folder).encode(), flight, args.host, args.port)
        context = rclpy.Context()
        rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
        node = Node("watch", context=context, use_global_arguments=False)
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(node)
        try:
            FlightWatch(node, flight, folder.grid.projection, args.node)
            print(f"{server.url}: open it in a browser; Ctrl-C ends", flush=True)
            while not stopping():
                executor.spin_once(timeout_sec=0.1)
        finally:
            server.close()
            executor.shutdown()
            node.destroy_node()
            context.try_shutdown()
    print(flight.summary)
    args.json.write(flight.counts)


def live_page(folder: MapFolder) -> str:
    """The page before anything was heard."""
    ground = Ground(folder.satellite.overview(MAP_SIDE_PX), folder.satellite.bounds)
    since = time.strftime("%Y-%m-%d %H:%M")
    return page_text(Page("A flight, live", ground, [FlightRun("live", [])], footer=f"since {since}", live_s=ASK_S))


def map_at(folder: MapFolder, position: NDArray[np.float64]) -> bytes:
    """The map around a position, as large as a view."""
    patches, _ = folder.satellite.read_patches(position[None], 0.0, folder.settings.footprint_m, PICTURE_PX)
    return small_jpeg(patches[0])
