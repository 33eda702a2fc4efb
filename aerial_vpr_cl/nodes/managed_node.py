"""What the nodes that live from a store share: its newest generation, and an eye on the newer ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic

from aerial_vpr_cl.errors import AerialVprError
from aerial_vpr_cl.nodes.generation_watch import GenerationWatch, Known
from aerial_vpr_cl.nodes.living_node import UNCONFIGURED, LivingNode
from aerial_vpr_cl.nodes.node_settings import ManagedSettings


class ManagedNode(LivingNode, Generic[Known]):
    """Follows the generations of its store.

    A node connects when a generation is loaded and disconnects when it is given up; `Known` is what it makes of one.
    Without a usable store it stays unconfigured, says why, and begins as soon as there is one.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Sequence[type]],
        fixed: Sequence[str],
        load: Callable[[Path, Known | None], tuple[int, Known]],
        **options: Any,
    ) -> None:
        super().__init__(name, parameters, fixed, **options)
        managed: ManagedSettings = self.settings[next(c for c in parameters[""] if issubclass(c, ManagedSettings))]
        self.watch = GenerationWatch(managed.store, load)
        self._store = managed.store
        self.create_timer(1.0, self._look_at_store, callback_group=self.slow, clock=self.steady)

    def each_second(self) -> None:
        """Called after a change in the store was taken into use."""

    def facts(self) -> dict[str, Any]:
        """State and store."""
        return {
            **super().facts(),
            "store": self._store,
            "store problem": self.watch.problem,
            "generation": "" if self.watch.number is None else self.watch.number,
        }

    def note_problem(self, words: str) -> None:
        """Why the node cannot be configured."""
        self.watch.problem = words

    def _take_up(self) -> None:
        self.watch.load()
        super()._take_up()

    def _give_up(self) -> None:
        super()._give_up()
        self.watch.forget()

    def _look_at_store(self) -> None:
        with self.edge("store"):
            if self.watch.has_changed():
                self._follow()
        with self.edge("each second"):  # whatever became of the store
            self.each_second()

    def _follow(self) -> None:
        if self.state == UNCONFIGURED:
            if self.starts_itself:
                self.start()
            return
        try:
            self.watch.load()
        except AerialVprError as error:
            self.get_logger().error(f"the new generation is not used: {error}")
