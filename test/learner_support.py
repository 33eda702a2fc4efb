"""A learner node under test and its operator, over real DDS."""

import time
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from ros_support import NodeProcess, Peer
from sensor_msgs.msg import NavSatFix
from std_msgs.msg import Bool, UInt64
from std_srvs.srv import Trigger
from store_support import write_flight

from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.nodes.learner_node import LATCHED

QUICK, LONG = 2, 1000
"""Cycles of an update that is over in a moment, and of one that is not."""


class Learner:
    """A learner node under test, and its operator."""

    def __init__(self, folder, store, name="learner"):
        self.store, self.name = GenerationStore(store), name
        parameters = {"store": str(store), "device": "cpu", "threads": 1, "views": 1, "budget": 2, "limits.nice": 0}
        self.process = NodeProcess(
            "learner_node",
            log=folder / f"{name}.log",
            parameters={**parameters, "cycles": QUICK, "gate_margin": 1.0},
            remap={"__node": name, "fix": f"{name}/fix", "landed": f"{name}/landed"},
        )
        self.peer = Peer(f"operator_of_{name}")
        self.clients = {}
        self.gnss = self.peer.publisher(NavSatFix, f"{name}/fix")
        self.landed = self.peer.publisher(Bool, f"{name}/landed", LATCHED)
        self.progress = self.peer.listen(DiagnosticStatus, f"{name}/progress")
        self.generations = self.peer.listen(UInt64, f"{name}/generation", LATCHED)
        self.reports = self.peer.listen(DiagnosticArray, "/diagnostics")

    def __enter__(self):
        self.process.__enter__()
        try:
            self.peer.wait_matched()
            self.status(lambda level, message, values: values["state"] == "active")
        except BaseException:
            print(self.process.log)
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.peer.__exit__()
        self.process.__exit__()

    def begin(self, order):
        """Call a service; returns the future of its answer."""
        client = self.clients.setdefault(order, self.peer.node.create_client(Trigger, f"{self.name}/{order}"))
        self.peer.wait_for(client.service_is_ready, what=order)
        return client.call_async(Trigger.Request())

    def answer(self, future):
        self.peer.wait_for(future.done, 120.0, what="an answer")
        return future.result()

    def order(self, order):
        return self.answer(self.begin(order))

    def begin_long_update(self):
        """An update that would take minutes, in the middle of its learning; returns the future of its answer."""
        self.fly()
        self.set(cycles=LONG)
        self.progress.clear()
        future = self.begin("adapt")
        self.peer.wait_for(lambda: self.phases() and self.phases()[-1] == "learn", 120.0, what="learning")
        self.set(cycles=QUICK)
        return future

    def fly(self):
        """See that a mission waits, and nothing else."""
        if not self.store.waiting_missions():
            name = f"sortie-{time.time_ns()}"
            write_flight(self.store.root, self.store.missions_dir / name, 20, name=name, modality="VIS")

    def phases(self):
        return [values_of(status)["phase"] for status in self.progress]

    def status(self, fits=lambda level, message, values: True):
        """The first report of the node from now on that fits, as (level, message, values)."""
        self.reports.clear()

        def fitting():
            for status in (status for report in self.reports for status in report.status):
                found = status.level, status.message, values_of(status)
                if status.name == f"/{self.name}" and fits(*found):
                    return found
            return None

        return self.peer.wait_for(fitting, what="a fitting report")

    def set(self, **values):
        request = SetParameters.Request()
        request.parameters = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        (result,) = self.peer.call(SetParameters, f"{self.name}/set_parameters", request).results
        assert result.successful, result.reason

    def updates(self):
        """Processes of the node that learn."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if parent_of(path) == self.process.process.pid]

    def serves(self, number):
        """Whether store and topic agree that this generation serves."""
        self.peer.wait_for(lambda: self.generations and self.generations[-1].data == number, what=f"{number}")
        return self.store.newest().number == number


def values_of(status):
    return {value.key: value.value for value in status.values}


def parent_of(process):
    """Of a folder in /proc; None if the process is gone."""
    try:
        return int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None


def is_gone(pid):
    try:
        return "(zombie)" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
