"""Whether the process that wrote a spool folder can still write to it.

In: a process record. Out: yes or no. Invariant: a process on another host, or one whose process id
now belongs to another process (by its start time, where that was recorded), counts as gone.
"""

from __future__ import annotations

import os
import platform

from .process_record import ProcessRecord


def still_recording(record: ProcessRecord) -> bool:
    """Whether the record's process lives and has not closed its file."""
    if record.complete or record.info["host"] not in ("", platform.node()):
        return False
    pid = record.info["pid"]
    if pid <= 0:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command in parentheses can hold anything: fields are counted after its last ")".
            state, *fields = file.read().rpartition(b")")[2].split()
    except FileNotFoundError:
        return not os.path.isdir("/proc/self") and _exists(pid)
    except (OSError, ValueError):
        return _exists(pid)
    if state in (b"Z", b"X"):
        return False
    started = record.info.get("start_time_ticks")
    return type(started) is not int or len(fields) < 19 or int(fields[18]) == started


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
