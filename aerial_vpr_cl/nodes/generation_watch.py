"""The generation in use, and the newer ones that a learner commits beside it."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from aerial_vpr_cl.errors import AerialVprError, StoreError
from aerial_vpr_cl.knowledge.generations import GenerationStore
from aerial_vpr_cl.localization.localizer import Localizer
from aerial_vpr_cl.model.devices import pick_device

log = logging.getLogger(__name__)


class GenerationWatch:
    """Holds the localizer in use and replaces it in one step; readers take `localizer` once per frame."""

    def __init__(self, store: str, device: str) -> None:
        self.localizer: Localizer | None = None
        self.problem = ""  # why the newest generation is not in use
        self._store = store
        self._device = device
        self._tried: list[int] | None = None  # the generations there were at the last attempt
        self._loading = threading.Lock()

    @property
    def path(self) -> Path:
        """The store."""
        if not self._store:
            raise StoreError("no store is given; set the parameter 'store' to one made by aerial-vpr build-map")
        return Path(self._store).expanduser()

    @property
    def number(self) -> int | None:
        """The generation in use."""
        localizer = self.localizer
        return localizer.generation.number if localizer and localizer.generation else None

    def load(self) -> None:
        """Take the newest generation into use; the one before answers meanwhile, and for ever if this one is unfit."""
        with self._loading:
            try:
                self._tried = GenerationStore(self.path).numbers()
                localizer = Localizer.open(self.path, device=pick_device(self._device), previous=self.localizer)
                localizer.warm_up()
            except Exception as error:
                self.problem = str(error) or repr(error)
                if not isinstance(error, AerialVprError):
                    self._tried = None  # not the generation's fault, such as a GPU that the learner still fills
                raise
            before, self.localizer, self.problem = self.number, localizer, ""
            if before != self.number:
                log.info("generation %s of %s is in use", self.number, self.path)

    def has_changed(self) -> bool:
        """Whether it is worth to load: a generation was committed or withdrawn. Looks at names of folders only."""
        try:
            numbers = GenerationStore(self.path).numbers()
        except StoreError:
            return False
        if not numbers or numbers == self._tried:
            return False
        if numbers[-1] == self.number:  # what was unfit is withdrawn, or an old one pruned
            self._tried, self.problem = numbers, ""
            return False
        return True

    def forget(self) -> None:
        """Use none."""
        self.localizer = None
