"""The folder a recording is written to while it runs, and the name of the capture it becomes.

In: the wished output path. Out: a claimed pair (output, ``output.part/``) with its JSON files.
Invariant: claiming is one ``mkdir``, so two recordings never share a folder, and nothing that another
recording wrote, is writing, or left behind when it was killed is ever overwritten:

- ``X.ftap`` of an earlier run is replaced (when the new capture is complete, by a rename);
- a name this process has already written, or whose ``.part`` folder exists, is taken: the capture
  gets the next free number, ``X.2.ftap``.
"""

from __future__ import annotations

import json
import os
import sys
import time

from ..errors import CaptureError
from ..version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FORMAT_VERSION = 1

_written: set[str] = set()


def claim(output: str) -> tuple[str, str]:
    """Make the spool folder for ``output``; returns (absolute output, absolute spool folder)."""
    root, suffix = os.path.splitext(os.path.abspath(output))
    number = 1
    while True:
        path = f"{root}{suffix}" if number == 1 else f"{root}.{number}{suffix}"
        spool = f"{path}.part"
        number += 1
        if os.path.isdir(path):
            raise CaptureError(path, "is a folder; the output must be a file")
        if path in _written:
            continue
        try:
            os.mkdir(spool)
        except FileExistsError:
            continue
        except OSError as error:
            raise CaptureError(
                path, f"cannot be written ({error.strerror}); give another file with output= (-o on the command line)"
            ) from None
        return path, spool


def remember_written(output: str) -> None:
    """This process wrote ``output``: a later recording of it must not replace it."""
    _written.add(output)


def describe_spool(spool: str, output: str, options: dict[str, Any]) -> None:
    """Write ``spool.json``."""
    _write_json(
        os.path.join(spool, "spool.json"),
        {
            "format_version": FORMAT_VERSION,
            "frametap": __version__,
            "output": output,
            "root_pid": os.getpid(),
            "started_wall_ns": time.time_ns(),
            "options": options,
        },
    )


def add_process(spool: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Make this process's folder in the spool, with its ``process.json``.

    Returns
    -------
    folder : str
    info : dict
        What ``process.json`` says; its engine is the one asked for, until :func:`tell_engine`.
    """
    number = 0
    while True:
        folder = os.path.join(spool, f"p{os.getpid()}-{number}")
        try:
            os.mkdir(folder)
            break
        except FileExistsError:  # a process id used again
            number += 1
    system = os.uname()
    info = {
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "command": list(sys.orig_argv),
        "executable": sys.executable,
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "platform": f"{system.sysname}-{system.release}-{system.machine}",
        "host": system.nodename,
        "engine": options["engine"],
        "c_calls": options["c_calls"],
        "options": options,
        "frametap": __version__,
        "working_directory": _working_directory(),
    }
    _write_json(os.path.join(folder, "process.json"), info)
    return folder, info


def tell_engine(folder: str, info: dict[str, Any], engine: str) -> None:
    """Write into ``process.json`` which engine it was, after the recording: known only once it runs."""
    _write_json(os.path.join(folder, "process.json"), {**info, "engine": engine})


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # removed under us
        return ""


def _write_json(path: str, value: dict[str, Any]) -> None:
    """Write whole or not at all: a reader never sees half of it."""
    with open(f"{path}.new", "w", encoding="ascii") as file:
        json.dump(value, file)
    os.replace(f"{path}.new", path)
