"""What can go wrong."""


class ChartError(ValueError):
    """States that do not fit together."""


class MachineError(RuntimeError):
    """Something at the wrong time."""
