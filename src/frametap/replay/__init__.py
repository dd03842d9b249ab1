"""Events to spans: a capture becomes a trace."""

from .build import build_trace
from .threads import Knots, ThreadSpans, replay_thread

__all__ = ["Knots", "ThreadSpans", "build_trace", "replay_thread"]
