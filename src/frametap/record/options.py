"""The options of a recording: one frozen record, checked when it is made, stored in the capture.

In: keyword arguments. Out: an :class:`Options` whose every field is valid.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..errors import OptionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ENGINES = ("auto", "frame_hook", "set_profile", "monitoring")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to record.

    Parameters
    ----------
    output : path-like, optional
        The capture to write. Without it: the program's name with ``.ftap``, in the working folder.
    engine : str
        "auto" picks the cheapest engine that records what is asked for on this Python;
        "frame_hook" (3.11), "set_profile" (3.11) and "monitoring" (3.12 and newer) insist on one.
    c_calls : bool
        Record calls of C functions too. Without it their time is self time of the Python caller.
    gc : bool
        Record garbage collections.

    Raises
    ------
    OptionError
        A value is not allowed; its ``option`` names which.

    Examples
    --------
    >>> Options(c_calls=True).engine
    'auto'
    """

    output: str | os.PathLike[str] | None = None
    engine: str = "auto"
    c_calls: bool = False
    gc: bool = True

    def __post_init__(self) -> None:
        if self.output is not None and (not isinstance(self.output, (str, os.PathLike)) or not os.fspath(self.output)):
            raise OptionError("output", f"output={self.output!r}: must be the path of a file to write, or None")
        if self.engine not in ENGINES:
            raise OptionError("engine", f"engine={self.engine!r}: must be one of {', '.join(map(repr, ENGINES))}")
        for name in ("c_calls", "gc"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise OptionError(name, f"{name}={value!r}: must be True or False")
        if self.c_calls and self.engine == "frame_hook":
            raise OptionError(
                "engine",
                "engine='frame_hook' cannot record C calls (c_calls=True): must be 'auto', 'set_profile' or 'monitoring'",
            )

    def to_dict(self) -> dict[str, Any]:
        """The options as they are stored in a capture (JSON types only)."""
        output = None if self.output is None else os.fsdecode(self.output)
        return {"output": output, "engine": self.engine, "c_calls": self.c_calls, "gc": self.gc}
