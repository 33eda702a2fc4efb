"""The autopilot on the other end of a MAVLink cable: what it tells, and what it is told."""
