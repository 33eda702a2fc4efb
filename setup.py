from pathlib import Path

from setuptools import find_packages, setup

package_name = "aerial_vpr_cl"


def packages_of(name: str) -> list[str]:
    """The requirements in a file of requirements/."""
    lines = Path(f"requirements/{name}.txt").read_text().splitlines()
    return [line for line in lines if line and line[0] != "#"]


def tree(folder: str) -> list[tuple[str, list[str]]]:
    """Every file below a folder, installed below share/<package> under the same path."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    folders = sorted({path.parent for path in files})
    return [(f"share/{package_name}/{name}", [str(p) for p in files if p.parent == name]) for name in folders]


setup(
    name=package_name,
    version="0.1.0",
    packages=find_packages(include=[package_name, f"{package_name}.*"]),
    package_data={f"{package_name}.page": ["static/*", "static/vendor/*"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package_name}"]),
        (f"share/{package_name}", ["package.xml"]),
        *tree("launch"),
        *tree("config"),
        *tree("maps"),
    ],
    python_requires=">=3.10",
    # ROS itself (rclpy and messages) comes from the ROS distribution, or from requirements/ros.txt; see README.
    install_requires=["setuptools", *packages_of("runtime")],
    extras_require={"onnx": packages_of("onnx")},
    zip_safe=True,
    maintainer="The aerial_vpr_cl maintainers",
    maintainer_email="maintainers@aerial-vpr-cl.dev",
    description="Localization of drones by recognising the ground, when satellite navigation cannot be trusted.",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "aerial-vpr = aerial_vpr_cl.cli:main",
            "localization_node = aerial_vpr_cl.nodes.entry:localization",
            "learner_node = aerial_vpr_cl.nodes.entry:learner",
            "replay_node = aerial_vpr_cl.nodes.entry:replay",
            "autopilot_bridge_node = aerial_vpr_cl.nodes.entry:autopilot_bridge",
            "simulated_camera_node = aerial_vpr_cl.nodes.entry:simulated_camera",
        ],
    },
)
