"""Every error frametap raises on purpose.

One base class; a subclass only where a caller can do something different about it, with the datum
it needs as an attribute. Messages say what was wrong, where, what was expected, and what to do.
Only the command line prints them and exits.
"""

from __future__ import annotations


class FrametapError(Exception):
    """Base class of all errors raised by frametap."""


class OptionError(FrametapError, ValueError):
    """An option has a value that it cannot have.

    Attributes
    ----------
    option : str
        The option's name.
    """

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


class StateError(FrametapError, RuntimeError):
    """The call does not fit the tracer's state (stop without start, two tracers at once)."""


class UnsupportedError(FrametapError, RuntimeError):
    """This interpreter, platform or engine cannot be traced."""


class CaptureError(FrametapError):
    """A capture or spool cannot be read or written.

    Attributes
    ----------
    path : str
        The file or folder.
    """

    def __init__(self, path: object, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = str(path)


class NewerFormatError(CaptureError):
    """The capture was written by a newer frametap.

    Attributes
    ----------
    found, supported : int
        Format versions: the capture's, and the newest this frametap reads.
    """

    def __init__(self, path: object, found: int, supported: int) -> None:
        super().__init__(
            path,
            f"format version {found}, but this frametap reads up to {supported}; install a newer frametap to read it",
        )
        self.found = found
        self.supported = supported
