"""The learner node over real DDS: orders and their answers, and that answers and store agree whatever happens."""

import os
import signal
import time

import pytest
from crash_support import names
from diagnostic_msgs.msg import DiagnosticStatus
from learner_support import Learner, contents, is_gone, values_of
from ros_support import NodeProcess
from sensor_msgs.msg import CompressedImage, NavSatFix, NavSatStatus
from std_msgs.msg import Bool
from store_support import jpeg, make_store, track, view

from aerial_vpr_cl.knowledge.map_folder import open_map
from aerial_vpr_cl.mission.recorder import MissionRecorder


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
