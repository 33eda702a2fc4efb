"""Images from messages and positions into messages, without a node around them."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import store_support

from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.localization.estimate import Estimate
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.nodes import messages
from aerial_vpr_cl.nodes.image_messages import decode_image, pick_decoder, sample_images


def test_all_decoders_there_are_agree():
    name, decode = pick_decoder()
    assert name in ("own", "cv_bridge")
    for image in sample_images():
        assert np.array_equal(decode(image), decode_image(image))


def test_a_bridge_that_ignores_row_padding_is_not_used(tmp_path, monkeypatch, caplog):
    (tmp_path / "careless_bridge.py").write_text(
        "import numpy as np\n"
        "class CvBridge:\n"
        "    def imgmsg_to_cv2(self, message, desired_encoding):\n"
        "        pixels = np.frombuffer(bytes(message.data), np.uint8)[: message.height * message.width]\n"
        "        return np.repeat(pixels.reshape(message.height, message.width, 1), 3, axis=2)\n"
    )
    (tmp_path / "careful_bridge.py").write_text(
        "from aerial_vpr_cl.nodes.image_messages import decode_image\n"
        "class CvBridge:\n"
        "    def imgmsg_to_cv2(self, message, desired_encoding):\n"
        "        return decode_image(message)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert pick_decoder("careless_bridge")[0] == "own"
    assert "not used" in caplog.text
    assert pick_decoder("careful_bridge")[0] == "cv_bridge"
    assert pick_decoder("no_bridge_at_all")[0] == "own"


def test_a_geo_pose_holds_the_position_in_degrees(tmp_path):
    grid = open_map(store_support.make_store(tmp_path)).grid
    estimator = Localizer.open(tmp_path / "store").estimator
    estimate = estimator.estimate(np.eye(grid.n_classes)[7])
    assert isinstance(estimate, Estimate)

    def stand_in(header):  # geographic_msgs is not on PyPI; these are its fields
        pose = SimpleNamespace(position=SimpleNamespace(latitude=0.0, longitude=0.0, altitude=0.0))
        return SimpleNamespace(header=header, pose=SimpleNamespace(pose=pose, covariance=None))

    message = messages.geo_pose_message(stand_in, "header", estimate, estimator)
    position = message.pose.pose.position
    np.testing.assert_allclose(
        grid.projection.to_utm(position.latitude, position.longitude), grid.centres[7], atol=1e-3
    )
    # GeoPoseWithCovariance.msg: "In order, the parameters are: (Lat, Lon, Alt, ...)"
    long_in_east = dataclasses.replace(estimate, covariance=np.array([[900.0, 30.0], [30.0, 400.0]]))
    message = messages.geo_pose_message(stand_in, "header", long_in_east, estimator)
    covariance = np.asarray(message.pose.covariance).reshape(6, 6)
    assert covariance[:2, :2].tolist() == [[400.0, 30.0], [30.0, 900.0]]
    assert np.isnan(message.pose.pose.position.altitude)
