"""Tables: what a trace is made of. Outputs and analyses read these, never events."""

from .table import Table
from .trace import Trace

__all__ = ["Table", "Trace"]
