"""frametap: a call tracer for Python.

Importing this package costs next to nothing: every name below is loaded when it is first used.

>>> import frametap
>>> with frametap.trace("run.ftap"):  # doctest: +SKIP
...     work()
>>> trace = frametap.open("run.ftap").trace()  # doctest: +SKIP
"""

from __future__ import annotations

from .annotate import counter, mark, span
from .version import __version__

TYPE_CHECKING = False  # typing is not imported before the program runs: it costs more than all of this
if TYPE_CHECKING:
    from typing import Any

    from . import export as export
    from .errors import (
        CaptureError,
        FrametapError,
        NewerFormatError,
        OptionError,
        StateError,
        UnsupportedError,
    )
    from .opened import OpenedCapture, open
    from .record import Options, Tap, trace

__all__ = [
    "CaptureError",
    "FrametapError",
    "NewerFormatError",
    "OpenedCapture",
    "OptionError",
    "Options",
    "StateError",
    "Tap",
    "UnsupportedError",
    "__version__",
    "counter",
    "export",
    "mark",
    "open",
    "span",
    "trace",
]

_HOME = {
    "CaptureError": "errors",
    "FrametapError": "errors",
    "NewerFormatError": "errors",
    "OpenedCapture": "opened",
    "OptionError": "errors",
    "Options": "record",
    "StateError": "errors",
    "Tap": "record",
    "UnsupportedError": "errors",
    "export": "export",
    "open": "opened",
    "trace": "record",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'frametap' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"frametap.{home}")
    value = module if name == home else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
