"""Localization of drones by recognising the ground from above, with continual learning."""

__version__ = "0.1.0"
