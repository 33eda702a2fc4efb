"""How far an update is, in words and as a message."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from aerial_vpr_cl.learning.update import Outcome, RunningUpdate, Stage


def progress_message(node_name: str, stage: Stage, outcome: Outcome | None = None) -> DiagnosticStatus:
    """What `~/progress` says: percent and time left are those of the phase; the last message tells the outcome."""
    left = 0.0 if outcome else stage.time_left_s
    values = {
        "mission": stage.mission,
        "phase": "done" if outcome else stage.phase,
        "percent": f"{100.0 if outcome else stage.percent:.0f}",
        "time_left_s": "" if left is None else f"{left:.0f}",
        "loss": "" if stage.loss is None else f"{stage.loss:.4g}",
    }
    return DiagnosticStatus(
        level=DiagnosticStatus.OK if outcome is None or outcome.success or outcome.cancelled else DiagnosticStatus.WARN,
        name=f"{node_name}: progress",
        message=outcome.message if outcome else _words_of_stage(stage),
        hardware_id="aerial_vpr_cl",
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )


def words_of(update: RunningUpdate | None) -> str:
    """What is being done; without an update it can only be a rollback."""
    return f"learning, {_words_of_stage(update.stage)}" if update else "rolling back"


def _words_of_stage(stage: Stage) -> str:
    mission = f"mission {stage.mission} ({stage.index} of {stage.count}): " if stage.mission else ""
    left = "" if stage.time_left_s is None else f", {stage.time_left_s:.0f} s left"
    return f"{mission}{stage.phase} {stage.percent:.0f} %{left}"
