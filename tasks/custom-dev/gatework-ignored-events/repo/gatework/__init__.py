"""State machines with states in states."""

from gatework.chart import Chart, State, Transition
from gatework.errors import ChartError, MachineError
from gatework.machine import Machine

__all__ = ["Chart", "ChartError", "Machine", "MachineError", "State", "Transition"]
