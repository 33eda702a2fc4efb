"""The demo: what it prints is what it runs."""

import shlex

from aerial_vpr_cl.nodes.demo_drone import start_node


def test_a_node_runs_with_the_very_parameters_that_are_printed(tmp_path, capsys):
    process = start_node("learner_node", tmp_path / "a store", ["cycles:=3", "device:=cpu"])
    run = list(process.args)
    process.kill()
    process.wait()
    printed = shlex.split(capsys.readouterr().out)
    assert printed[:5] == ["$", "ros2", "run", "aerial_vpr_cl", "learner_node"] and printed[-1] == "&"
    assert printed[5:-1] == run[run.index("--ros-args") :]
    assert {f"store:={tmp_path / 'a store'}", "cycles:=3", "device:=cpu"} <= set(printed)
