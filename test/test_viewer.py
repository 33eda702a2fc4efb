"""What RViz and Foxglove are shown: made right, found where their files look for it, and nothing of it unasked."""

import ast
import json
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import rclpy
import store_support
import yaml
from flight_support import FOV_DEG, HEIGHT_M, TrackedFlight
from nav_msgs.msg import OccupancyGrid
from nav_msgs.msg import Path as PathMessage
from sensor_msgs.msg import CompressedImage, PointCloud2
from std_msgs.msg import Header
from visualization_msgs.msg import Marker

from aerial_vpr_cl.geo.camera import CameraModel
from aerial_vpr_cl.geo.datum import Datum
from aerial_vpr_cl.geo.rotation import from_angles, from_quaternion
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.belief import Belief
from aerial_vpr_cl.localization.estimate import RADIUS_SIGMAS, Rejection
from aerial_vpr_cl.localization.lattice import Lattice
from aerial_vpr_cl.localization.view import NORTH_UP, ViewSettings
from aerial_vpr_cl.mission.situation import Situation
from aerial_vpr_cl.nodes.answering import Answering
from aerial_vpr_cl.nodes.frames import Frames
from aerial_vpr_cl.nodes.living_node import LATCHED
from aerial_vpr_cl.nodes.node_settings import FlightSettings
from aerial_vpr_cl.nodes.viewer.belief_map import MOST_SIDE, NO_MAP, belief_message
from aerial_vpr_cl.nodes.viewer.ground import grid_message, plane_message, points_message
from aerial_vpr_cl.nodes.viewer.markers import ellipse_message
from aerial_vpr_cl.nodes.viewer.outputs import ViewerOutputs
from aerial_vpr_cl.nodes.viewer.settings import ViewerSettings
from aerial_vpr_cl.nodes.viewer.side_by_side import SIDE_PX, side_by_side
from aerial_vpr_cl.nodes.viewer.trail import Trail

ROOT = Path(__file__).parent.parent
HEADER = Header(frame_id="map")
TURNED = Datum(500_600.0, 5_199_400.0, 2.5)
"""Near the middle of the painted map, with as much between the norths as there is at the border of a zone."""
DISPLAYS = {
    "Marker": "visualization_msgs/msg/Marker",
    "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "Map": "nav_msgs/msg/OccupancyGrid",
    "Path": "nav_msgs/msg/Path",
    "Odometry": "nav_msgs/msg/Odometry",
    "Image": "sensor_msgs/msg/CompressedImage",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return store_support.make_map(tmp_path_factory.mktemp("ground"))


def points_of(marker):
    return np.array([[point.x, point.y] for point in marker.points])


def test_the_picture_of_the_ground_ends_where_the_raster_ends(store):
    satellite = open_map(store).satellite
    marker = plane_message(HEADER, satellite, TURNED, 128)
    west, south, east, north = satellite.bounds
    for point, uv in zip(TURNED.to_grid(points_of(marker)), marker.uv_coordinates):
        expected = west + uv.u * (east - west), north - uv.v * (north - south)  # v is counted from the top
        np.testing.assert_allclose(point, expected, atol=1e-6)
    picture = cv2.imdecode(np.frombuffer(bytes(marker.texture.data), np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape == (128, 128, 3)
    assert marker.type == Marker.TRIANGLE_LIST and marker.texture_resource.startswith("embedded://")


def test_every_point_of_the_ground_has_the_colour_of_the_map_there(store):
    satellite = open_map(store).satellite
    message = points_message(HEADER, satellite, TURNED, 300)
    cloud = np.frombuffer(bytes(message.data), [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("rgb", "<u4")])
    assert len(cloud) == message.width * message.height == 300 * 300
    assert [field.name for field in message.fields] == ["x", "y", "z", "rgb"]
    chosen = cloud[:: len(cloud) // 50]
    places = TURNED.to_grid(np.stack([chosen["x"], chosen["y"]], axis=1))
    patches, _ = satellite.read_patches(places, 0.0, store_support.PIXEL_M, 1)
    colours = np.stack([chosen["rgb"] >> shift & 255 for shift in (16, 8, 0)], axis=1)
    assert np.abs(patches[:, 0, 0].astype(int) - colours.astype(int)).max() <= 3


def test_every_border_between_cells_is_drawn_once(store):
    grid = open_map(store).grid
    lines = TURNED.to_grid(points_of(grid_message(HEADER, grid, TURNED))).reshape(-1, 2, 2)
    rows = columns = round(store_support.SIDE_M / 200.0)
    assert grid.n_classes == rows * columns and len(lines) == rows * (columns + 1) + columns * (rows + 1)
    assert np.linalg.norm(lines[:, 1] - lines[:, 0], axis=1) == pytest.approx(200.0)


@pytest.mark.parametrize("width_m", [2000.0, 9000.0])
def test_the_hottest_cell_of_the_heat_map_lies_where_the_belief_is(width_m):
    """As a viewer draws it: rows from the origin upwards, turned about it."""
    west, north = 496_000.0, 5_202_000.0
    belief = Belief(Lattice.over((west, north - 3000.0, west + width_m, north), 10.0))
    place = np.array([west + 1234.0, north - 777.0])
    belief.place(place, np.eye(2) * 900.0)
    message = belief_message(HEADER, belief, TURNED)
    assert max(message.info.width, message.info.height) <= MOST_SIDE
    cells = np.array(message.data).reshape(message.info.height, message.info.width)
    assert cells.max() == 100 and cells.min() >= 0
    row, column = np.unravel_index(np.argmax(cells), cells.shape)
    origin, turn = message.info.origin.position, message.info.origin.orientation
    step = message.info.resolution * np.array([column + 0.5, row + 0.5, 0.0])
    drawn = from_quaternion([turn.x, turn.y, turn.z, turn.w]) @ step + [origin.x, origin.y, 0.0]
    assert np.hypot(*(TURNED.to_grid(drawn[:2]) - place)) < 1.5 * message.info.resolution


def test_where_there_is_no_map_the_heat_map_says_so():
    on_map = np.ones((40, 60), bool)
    on_map[:10] = False  # the northernmost rows, which come last
    message = belief_message(HEADER, Belief(Lattice(0.0, 400.0, 10.0, on_map)), TURNED)
    cells = np.array(message.data).reshape(40, 60)
    assert (cells[-10:] == NO_MAP).all() and (cells[:-10] == 100).all()


def test_an_ellipse_goes_through_points_of_the_same_probability():
    covariance, position = np.array([[400.0, 150.0], [150.0, 100.0]]), np.array([30.0, -20.0])
    off = points_of(ellipse_message(HEADER, position, covariance)) - position
    distances = np.sqrt(np.einsum("ni,ij,nj->n", off, np.linalg.inv(covariance), off))
    assert distances == pytest.approx(RADIUS_SIGMAS)


def test_a_trail_is_thinned_and_keeps_the_newest():
    trail = Trail("map", 10)
    for step in range(200):
        trail.add(step, np.array([step * 1.0, 0.0]))
    poses = trail.message(HEADER).poses
    assert [pose.pose.position.x for pose in poses] == list(np.arange(150.0, 200.0, 5.0))
    assert {pose.header.frame_id for pose in poses} == {"map"}
    trail.forget()
    assert not trail.message(HEADER).poses


def test_view_and_map_look_alike_where_the_drone_is_and_not_elsewhere(store):
    satellite, point = open_map(store).satellite, store_support.track(1)[1][0]
    frame = store_support.view(store, point[None], 128)[0]
    camera = CameraModel.from_fov(128, 128, FOV_DEG)
    situation = Situation(
        camera=camera, rotation=from_angles(0.0), heading_sigma_deg=2.0, height_m=HEIGHT_M, height_sigma_m=1.0
    )
    views = ViewSettings(NORTH_UP, 300.0, 128)

    def difference(position):
        picture = side_by_side(frame, situation, views, satellite, position).astype(float)
        assert picture.shape[0] == SIDE_PX and picture.shape[1] > 3 * SIDE_PX
        seen, there = picture[:, -2 * SIDE_PX - 4 : -SIDE_PX - 4], picture[:, -SIDE_PX:]
        return np.abs(seen - there).mean()

    assert difference(point) < 0.5 * difference(point + np.array([150.0, 90.0]))


def test_nothing_is_made_while_nobody_looks(store):
    folder = open_map(store)
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node("unseen", context=context)
    frames = Frames.of(FlightSettings(), folder.datum)
    outputs = ViewerOutputs(node, folder, frames, ViewerSettings(enabled=True))
    outputs.each_second()
    frame = np.zeros((32, 32, 3), np.uint8)
    outputs.add_frame(1, Rejection("searching"), Answering(store, None, lambda: None), (frame, Situation()))
    assert "satellite" not in vars(folder)  # the raster was never opened
    outputs.close()
    node.destroy_node()
    context.try_shutdown()


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    options = {"viewer.enabled": True, "viewer.rate_hz": 30.0, "viewer.ground_px": 256, "viewer.ground_points": 64}
    with TrackedFlight(tmp_path_factory.mktemp("viewed"), "localization", **options) as flight:
        flight.peer.wait_matched()
        flight.status(lambda values: values["state"] == "active")
        yield flight


def test_a_flight_is_shown_and_who_comes_late_sees_the_map(flight):
    flight.until_tracking(gnss_offset=np.zeros(2))
    listened = {
        name: flight.peer.listen(kind, f"/localization/viewer/{name}", qos)
        for name, kind, qos in [
            ("ground", Marker, LATCHED),
            ("ground_points", PointCloud2, LATCHED),
            ("grid", Marker, LATCHED),
            ("belief", OccupancyGrid, 10),
            ("track", PathMessage, 10),
            ("gnss", PathMessage, 10),
            ("ellipse", Marker, 10),
            ("state", Marker, 10),
            ("pictures/compressed", CompressedImage, 10),
        ]
    }
    flight.peer.wait_matched()
    for _ in range(3):
        flight.step(gnss_offset=np.zeros(2))
    for name, heard in listened.items():
        flight.peer.wait_for(lambda heard=heard: heard, what=name)
        assert heard[-1].header.frame_id == "map", name
    datum = open_map(flight.store).datum
    last = flight.peer.wait_for(lambda: listened["track"][-1].poses)[-1].pose.position
    assert np.hypot(*(datum.to_grid([last.x, last.y]) - flight.point)) < 60.0
    by_gnss = flight.peer.wait_for(lambda: listened["gnss"][-1].poses)[-1].pose.position
    assert np.hypot(*(datum.to_grid([by_gnss.x, by_gnss.y]) - flight.point)) < 20.0
    assert listened["state"][-1].text == "tracking" and max(listened["belief"][-1].data) == 100
    picture = np.frombuffer(bytes(listened["pictures/compressed"][-1].data), np.uint8)
    assert cv2.imdecode(picture, cv2.IMREAD_COLOR).shape[0] == SIDE_PX
    flight.peer.spin(0.2)
    old = flight.image(store_support.view(flight.store, flight.point[None])[0], flight.stamp_ns - 400_000_000)
    flight.ask_message(old)
    flight.peer.wait_for(lambda: listened["state"][-1].text == "tracking: late image")
    flight.peer.wait_for(lambda: listened["ellipse"][-1].action == Marker.DELETE)
    late = flight.peer.listen(Marker, "/localization/viewer/ground", LATCHED)
    flight.peer.wait_for(lambda: late, what="the latched map")


def topics_of_node(flight):
    """Topic → type of all that the node publishes, and of its inputs by the names that they have unless remapped."""
    node = flight.peer.node
    out = dict(node.get_publisher_names_and_types_by_node("localization", "/"))
    heard = dict(node.get_subscriber_names_and_types_by_node("localization", "/"))
    names = {"/localization/gnss": "/fix", "/localization/image": "/image"}
    both = {**out, **{names.get(name, name): kinds for name, kinds in heard.items()}}
    return {name: kinds[0] for name, kinds in both.items()}


def rviz_file():
    return yaml.safe_load((ROOT / "config" / "viewers" / "flight.rviz").read_text())["Visualization Manager"]


def test_every_topic_of_the_rviz_file_is_one_of_the_node_and_of_the_displays_type(flight):
    there, shown = topics_of_node(flight), set()
    for display in rviz_file()["Displays"]:
        kind = display["Class"].removeprefix("rviz_default_plugins/")
        if kind == "TF":
            continue
        topic = display["Topic"]["Value"]
        assert there[topic] == DISPLAYS[kind], topic
        latched = topic in ("/localization/viewer/ground", "/localization/viewer/grid")
        assert display["Topic"]["Durability Policy"] == ("Transient Local" if latched else "Volatile"), topic
        shown.add(topic)
    tools = [tool["Topic"]["Value"] for tool in rviz_file()["Tools"] if "Topic" in tool]
    assert tools == ["/initialpose"] and "/initialpose" in there
    launch = (ROOT / "launch" / "flight.launch.py").read_text()
    viewed = ast.literal_eval(re.search(r"^VIEWED = (\(.*?^\))$", launch, re.MULTILINE | re.DOTALL)[1])
    assert {f"/localization/{name}" for name in viewed} == shown  # what the launch file takes into a namespace


def test_every_topic_of_the_foxglove_layout_is_one_of_the_node(flight):
    layout = json.loads((ROOT / "config" / "viewers" / "foxglove.json").read_text())
    there = topics_of_node(flight)
    named = set(re.findall(r'"(/[\w/]+)', json.dumps(layout)))
    assert len(named) > 10 and named <= set(there), named - set(there)
    panels = set(re.findall(r'"([\w]+![\w]+)"', json.dumps(layout["layout"])))
    assert panels == set(layout["configById"])


def test_both_files_draw_in_the_frame_that_the_node_publishes_in():
    layout = json.loads((ROOT / "config" / "viewers" / "foxglove.json").read_text())
    frame = FlightSettings().map_frame_id
    assert rviz_file()["Global Options"]["Fixed Frame"] == layout["configById"]["3D!flight"]["followTf"] == frame
