"""Packs what killed processes left.

In: a spool folder. Out: a capture. Invariant: a spool to which a process may still write is left alone
unless that is asked for, and no other capture is overwritten by default.
"""

from __future__ import annotations

from pathlib import Path

from ..errors import CaptureError
from .alive import still_recording
from .pack import Progress, pack
from .spool import Spool


def recover(spool: Path, output: Path | None = None, *, progress: Progress | None = None, force: bool = False) -> Path:
    """Make a capture of a spool that was never packed, and remove the spool.

    Parameters
    ----------
    spool : Path
        The ``.part`` folder, or the capture that should have become of it.
    output : Path, optional
        The capture to write; replaced if it exists. Default: the one the recording was to make, beside
        the spool if that was moved; it must not exist.
    progress : callable, optional
        Called with (bytes done, bytes in total).
    force : bool
        Pack although a process is still recording into the spool; what it does later is lost.

    Returns
    -------
    Path
        The capture.

    Raises
    ------
    CaptureError
        Nothing to recover, a process is still recording, or the capture cannot be written.
    NewerFormatError
    """
    spool = Path(spool)
    part = spool.with_name(spool.name + ".part")
    if not spool.is_dir() and part.is_dir():
        spool = part
    if not spool.is_dir():
        raise CaptureError(spool, "is no spool folder (*.part): there is nothing to recover")
    found = Spool(spool)
    if not force:
        for folder in found.folders:
            record = found.read_process(folder)
            if still_recording(record):
                raise CaptureError(
                    spool,
                    f"process {record.info['pid']} is still recording into it; wait until it has ended, "
                    "or recover with --force and lose what it does from now on",
                )
    if output is None:
        output = _default_output(found)
        if output.exists():
            raise CaptureError(output, "exists already; name another output with -o")
    pack(spool, Path(output), progress=progress, complete=False)
    return Path(output)


def _default_output(spool: Spool) -> Path:
    told = spool.meta.get("output")
    if isinstance(told, str) and told and "\0" not in told:
        output = Path(told)
        if output.with_name(output.name + ".part").resolve() == spool.path.resolve():
            return output
    name = spool.path.resolve().name
    return spool.path.resolve().with_name(name.removesuffix(".part") if name.endswith(".part") else name + ".ftap")
