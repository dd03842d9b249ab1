"""Captures and spools: writing, packing, reading. Nothing here interprets events."""

from .capture import Capture, open_capture
from .clock import Clock, ClockPair
from .pack import pack
from .process_record import ProcessRecord
from .recover import recover
from .segments import Segment
from .tables import LossDetail, ThreadRecord

__all__ = [
    "Capture",
    "Clock",
    "ClockPair",
    "LossDetail",
    "ProcessRecord",
    "Segment",
    "ThreadRecord",
    "open_capture",
    "pack",
    "recover",
]
