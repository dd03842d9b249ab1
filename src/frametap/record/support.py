"""What can be traced here: the interpreter, the platform, and the compiled core.

In: nothing. Out: ``require_supported()`` returns, or raises ``UnsupportedError`` that says what is
supported; ``load_core()`` gives the compiled core.
"""

from __future__ import annotations

import sys
from types import ModuleType

from ..errors import UnsupportedError

SUPPORTED = "frametap records on CPython 3.11 to 3.15 with the GIL, on 64-bit Linux"


def require_supported() -> None:
    """Raise ``UnsupportedError`` unless this process can be traced."""
    version = "{}.{}".format(*sys.version_info[:2])
    if sys.implementation.name != "cpython":
        found = f"this is {sys.implementation.name} {version}"
    elif not (3, 11) <= sys.version_info[:2] <= (3, 15):
        found = f"this is Python {version}"
    elif "t" in getattr(sys, "abiflags", ""):
        found = f"this is the free-threaded build of Python {version}"
    elif sys.platform != "linux" or sys.maxsize < 2**63 - 1:
        found = f"this is {sys.platform}, {sys.maxsize.bit_length() + 1} bits"
    else:
        return
    raise UnsupportedError(f"{SUPPORTED}; {found}")


def load_core() -> ModuleType:
    """The compiled core, or ``UnsupportedError`` that says how to build it."""
    from importlib import import_module

    try:
        return import_module("frametap._core")
    except ImportError as error:
        raise UnsupportedError(
            f"frametap's compiled core cannot be loaded by {sys.executable} ({error}); install frametap with this "
            f"interpreter (`{sys.executable} -m pip install frametap`), or in a checkout: `make build PYTHON={sys.executable}`"
        ) from error
