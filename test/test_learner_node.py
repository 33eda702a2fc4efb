"""The learner node over real DDS: orders and their answers, and that answers and store agree whatever happens."""

import dataclasses
import os
import signal
import time
from pathlib import Path

import pytest
import rclpy
import yaml
from crash_support import names
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from ros_support import REPOSITORY, NodeProcess, Peer
from sensor_msgs.msg import CompressedImage, NavSatFix, NavSatStatus
from std_msgs.msg import Bool, UInt64
from std_srvs.srv import Trigger
from store_support import jpeg, make_store, track, view, write_flight

from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.learning.adapt_settings import AdaptSettings
from aerial_vpr_cl.learning.update_process import UpdateLimits
from aerial_vpr_cl.mission.recorder import MissionRecorder
from aerial_vpr_cl.nodes.entry import REFUSED
from aerial_vpr_cl.nodes.learner_node import LATCHED, PARAMETERS, LearnerNode
from aerial_vpr_cl.nodes.node_settings import LearnerSettings

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


@pytest.fixture(scope="module")
def learner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learner")
    with Learner(folder, make_store(folder)) as learner:
        yield learner


def test_adapt_learns_answers_when_it_is_durable_and_stays_responsive_meanwhile(learner):
    before = learner.store.newest().number
    learner.fly()
    future = learner.begin("adapt")
    second = learner.order("adapt")
    assert not second.success and "busy: learning" in second.message and "~/cancel" in second.message
    rollback = learner.order("rollback")
    assert not rollback.success and "busy: learning" in rollback.message
    assert not future.done()
    answer = learner.answer(future)
    assert answer.success, answer.message
    assert f"learnt as generation {before + 1}: 20 frames flown, 20 used" in answer.message
    assert "deleted" in answer.message and "recall on this flight" in answer.message
    assert answer.message.endswith(f"Generation {before + 1} serves.")
    assert learner.serves(before + 1)
    assert names(learner.store.missions_dir) == []
    learner.peer.wait_for(lambda: "done" in learner.phases())
    assert learner.phases()[0] in ("start", "read") and learner.progress[-1].message == answer.message
    level, message, values = learner.status()
    assert (level, message) == (DiagnosticStatus.OK, f"ready; generation {before + 1} serves")
    assert values["missions waiting"] == "0" and values["last answer"] == answer.message


def test_progress_tells_phase_percent_time_left_and_loss_and_cancel_changes_nothing(learner):
    before = learner.store.newest().number
    future = learner.begin_long_update()
    missions = contents(learner.store.missions_dir)
    learner.peer.wait_for(lambda: len(learner.progress) > 3 and values_of(learner.progress[-1])["time_left_s"])
    values = values_of(learner.progress[-1])
    assert 0 <= float(values["percent"]) < 100 and float(values["loss"]) > 0 and values["mission"].startswith("sortie")
    assert "learn" in learner.progress[-1].message and "s left" in learner.progress[-1].message
    logged = len(learner.process.log)
    cancel = learner.order("cancel")
    answer = learner.answer(future)
    assert cancel.success and not answer.success
    assert cancel.message == answer.message == f"cancelled; what is not learnt is kept. Generation {before} serves."
    assert learner.serves(before) and contents(learner.store.missions_dir) == missions
    assert learner.updates() == []
    assert "[ERROR]" not in learner.process.log[logged:]
    assert learner.status()[0] == learner.progress[-1].level == DiagnosticStatus.OK
    nothing = learner.order("cancel")
    assert not nothing.success and "nothing to cancel" in nothing.message


def test_a_killed_update_is_told_and_the_next_one_works(learner):
    before = learner.store.newest().number
    future = learner.begin_long_update()
    (pid,) = learner.updates()
    os.kill(pid, signal.SIGKILL)
    answer = learner.answer(future)
    assert not answer.success
    assert "the update process was killed by SIGKILL; what is not learnt is kept" in answer.message
    assert answer.message.endswith(f"Generation {before} serves.") and learner.serves(before)
    assert len(learner.store.waiting_missions()) == 1
    level, message, _ = learner.status()
    assert level == DiagnosticStatus.WARN and "SIGKILL" in message
    again = learner.order("adapt")
    assert again.success, again.message
    assert learner.serves(before + 1)


def test_rollback_returns_to_the_previous_generation_until_there_is_none(learner):
    numbers = learner.store.numbers()
    while len(numbers) > 1:
        answer = learner.order("rollback")
        assert answer.success and f"generation {numbers[-1]} is withdrawn" in answer.message
        assert answer.message.endswith(f"Generation {numbers[-2]} serves.")
        numbers.pop()
        assert learner.serves(numbers[-1])
    answer = learner.order("rollback")
    assert not answer.success and "none to roll back to" in answer.message
    assert learner.serves(numbers[-1])


def test_the_learner_refuses_while_the_drone_flies(learner):
    projection = open_map(learner.store.root).grid.projection
    for mission in learner.store.waiting_missions():
        mission.rename(learner.store.missions_dir / f".{mission.name}")

    def fly_at(speed_mps, start_s):
        stamps, points = track(4, speed_mps=speed_mps)
        for stamp_ns, latitude, longitude in zip(stamps, *projection.to_wgs84(points)):
            message = NavSatFix(latitude=float(latitude), longitude=float(longitude))
            message.status.status = NavSatStatus.STATUS_FIX
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(int(stamp_ns + start_s * 10**9), 10**9)
            learner.gnss.publish(message)
            learner.peer.spin(0.05)

    fly_at(12.0, 0)
    learner.status(lambda level, message, values: "12.0 m/s" in values["signs of flight"])
    fly_at(12.0, 100)  # a sign of flight is forgotten after some seconds without fixes
    answer = learner.order("adapt")
    assert not answer.success and "the drone flies: GNSS speed is 12.0 m/s" in answer.message
    learner.set(allow_while_flying=True)
    assert learner.order("adapt").message.startswith("no mission is waiting")
    learner.set(allow_while_flying=False)
    fly_at(1.0, 200)
    learner.status(lambda level, message, values: not values["signs of flight"])
    assert learner.order("adapt").success

    learner.landed.publish(Bool(data=False))
    learner.status(lambda level, message, values: values["signs of flight"])
    answer = learner.order("adapt")
    assert not answer.success and "has not landed" in answer.message
    answer = learner.order("rollback")
    assert not answer.success and "has not landed" in answer.message
    learner.landed.publish(Bool(data=True))
    learner.status(lambda level, message, values: not values["signs of flight"])
    assert learner.order("adapt").success


def test_adapt_says_that_a_mission_is_still_being_recorded(learner):
    waiting = len(learner.store.waiting_missions())
    recorder = MissionRecorder(learner.store.missions_dir, open_map(learner.store.root).grid)
    name = recorder.start().result(30.0)
    answer = learner.order("adapt")
    assert not answer.success and f"mission {name} is still being recorded" in answer.message
    assert "~/record" in answer.message and "stop_after_s" in answer.message
    recorder.stop().result(30.0)
    recorder.close()
    assert len(learner.store.waiting_missions()) == waiting
    assert "still being recorded" not in learner.order("adapt").message


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"method": "foo"}, "dbs_hybrid"), ({"device": "tpu"}, "cuda:N"), ({"cycels": 3}, "did you mean 'cycles'?")],
)
def test_what_cannot_be_is_refused_at_start(tmp_path, parameters, words):
    with NodeProcess("learner_node", log=tmp_path / "log", parameters=parameters) as node:
        assert node.process.wait(60.0) == REFUSED
        assert words in node.log and next(iter(parameters)) in node.log and "Traceback" not in node.log


def test_localization_takes_the_new_generation_over_without_missing_more_than_a_frame(learner, tmp_path):
    learner.fly()
    peer, store = learner.peer, learner.store.root
    frame = jpeg(view(store, track(1)[1])[0])
    parameters = {"store": str(store), "image_transport": "compressed", "recording.mode": "never", "device": "cpu"}
    parameters["answer"] = "single_frame"
    with NodeProcess("localization_node", log=tmp_path / "localization.log", parameters=parameters) as localization:
        images = peer.publisher(CompressedImage, "image")
        fixes = peer.listen(NavSatFix, "localization/fix")
        sent = []

        def stream():
            """A frame every 200 ms, as long as somebody waits for something."""
            if not sent or time.monotonic() - sent[-1][0] >= 0.2:
                sent.append((time.monotonic(), len(sent) + 1))
                message = CompressedImage(format="jpeg", data=frame)
                message.header.stamp.sec = sent[-1][1]
                images.publish(message)

        def answered():
            return {fix.header.stamp.sec for fix in fixes}

        peer.wait_for(lambda: stream() or answered(), what="the first position")
        first = len(sent) + 1
        future = learner.begin("adapt")
        peer.wait_for(lambda: stream() or future.done(), 120.0, what="the update")
        assert future.result().success, future.result().message
        learner.reports.clear()
        newest = str(learner.store.newest().number)

        def generation_in_use():
            statuses = [status for report in learner.reports for status in report.status]
            return [values_of(s)["generation"] for s in statuses if s.name == "/localization"]

        peer.wait_for(lambda: stream() or newest in generation_in_use(), what="the new generation")
        last = len(sent)
        peer.wait_for(lambda: stream() or max(answered()) > last + 5, what="the end of the stream")
        missed = set(range(first, last + 1)) - answered()
        assert len(missed) <= 1, (missed, localization.log)
        assert localization.alive


def test_an_update_never_survives_its_node_and_the_store_is_as_before(tmp_path):
    store = make_store(tmp_path)
    with Learner(tmp_path, store, "killed") as killed:
        killed.begin_long_update()
        (pid,) = killed.updates()
        missions = contents(killed.store.missions_dir)
        killed.process.stop(signal.SIGKILL)
        killed.peer.wait_for(lambda: is_gone(pid), what="the end of the update")
    assert killed.store.numbers() == [0] and contents(killed.store.missions_dir) == missions

    with Learner(tmp_path, store, "stopped") as stopped:
        future = stopped.begin_long_update()
        (pid,) = stopped.updates()
        stopped.process.send(signal.SIGINT, times=2)
        answer = stopped.answer(future)
        assert not answer.success and answer.message.startswith("cancelled") and "Generation 0 serves" in answer.message
        assert stopped.process.stop(signal.SIGTERM) == 0, stopped.process.log
        assert "Traceback" not in stopped.process.log and is_gone(pid)
    assert stopped.store.numbers() == [0] and contents(stopped.store.missions_dir) == missions


@pytest.fixture
def make_idle_node():
    """Makes nodes in this process that wait for a lifecycle manager."""
    context = rclpy.Context()
    made = []

    def make(*arguments):
        if not context.ok():
            rclpy.init(context=context, args=["--ros-args", *arguments, "-p", "autostart:=false"])
        made.append(LearnerNode(context=context))
        return made[-1]

    yield make
    for node in made:
        node.destroy_node()
    context.try_shutdown()


def test_an_inactive_learner_takes_no_orders(make_idle_node, tmp_path):
    node = make_idle_node("-p", f"store:={make_store(tmp_path)}")
    for prepare, state in ((lambda: None, "unconfigured"), (node.trigger_configure, "inactive")):
        prepare()
        answer = node._on_adapt(Trigger.Request(), Trigger.Response())
        assert not answer.success and f"the learner is {state}; activate it first" in answer.message
    node.trigger_activate()
    assert node._on_adapt(Trigger.Request(), Trigger.Response()).message.startswith("no mission is waiting")
    node.trigger_deactivate()
    node.trigger_cleanup()
    assert not node._on_adapt(Trigger.Request(), Trigger.Response()).success


def test_a_learner_without_a_store_stays_unconfigured_and_says_how_to_make_one(make_idle_node, tmp_path):
    node = make_idle_node("-p", f"store:={tmp_path / 'nowhere'}")
    node.trigger_configure()
    answer = node._on_adapt(Trigger.Request(), Trigger.Response())
    assert not answer.success and "unconfigured" in answer.message and "aerial-vpr build-map" in answer.message


def test_learner_yaml_is_every_parameter_at_its_default(make_idle_node):
    (written,) = yaml.safe_load((REPOSITORY / "config" / "learner.yaml").read_text()).values()
    values = {}
    for name, value in written["ros__parameters"].items():
        values |= {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
    expected = {
        f"{prefix}.{field.name}" if prefix else field.name: field.default
        for prefix, classes in PARAMETERS.items()
        for cls in classes
        for field in dataclasses.fields(cls)
        if field.default is not None
    }
    assert values == expected
    node = make_idle_node("--params-file", str(REPOSITORY / "config" / "learner.yaml"))
    assert node.settings[AdaptSettings] == AdaptSettings()
    assert node.settings[UpdateLimits] == UpdateLimits()
    assert node.settings[LearnerSettings] == LearnerSettings(autostart=False)
