"""Analyses: what the calls add up to. Each takes a trace and gives a :class:`Stats`.

No Python statement runs per call: functions and call sites are looped over, calls only in NumPy.
"""

from .functions import call_sites, functions
from .stats import Stats
from .threads import losses, threads

__all__ = ["Stats", "call_sites", "functions", "losses", "threads"]
