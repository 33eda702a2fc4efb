"""The package's exceptions: every message names the thing, what was expected, and what to do."""


class AerialVprError(Exception):
    """Something the user can act on. Caught at the edge only: a node callback or the command line."""


class MapError(AerialVprError):
    """A raster, grid or map folder that cannot be used."""


class MissionError(AerialVprError):
    """A mission bag that cannot be read, written or learnt from."""


class SensorError(AerialVprError):
    """A measurement of the drone that cannot be used: an attitude, a height or a camera calibration."""


class ModelError(AerialVprError):
    """A backbone, weight file or checkpoint that cannot be used."""


class StoreError(AerialVprError):
    """A store whose state does not allow what was asked: damaged, locked, full, or of another grid."""


class SettingsError(AerialVprError):
    """A setting that is unknown, of the wrong type or out of range."""


class Cancelled(AerialVprError):
    """The operator stopped a long piece of work; nothing was changed."""
