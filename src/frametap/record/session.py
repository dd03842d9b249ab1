"""A recording: started, paused, annotated and stopped from Python.

In: options, and the program's calls. Out: a capture at :attr:`Tap.path`.
Invariant: at most one tap records in a process. No code of ours that is not in this package runs
between the core's start and stop (its frames would be in the trace): everything is prepared before.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys

from .. import annotate
from ..errors import CaptureError, FrametapError, StateError, UnsupportedError
from .options import Options
from .spool_folder import add_process, claim, describe_spool, remember_written, tell_engine
from .support import load_core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType
    from typing import Any, Self, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])

# Frames of files in here are ours: the trace does not show them.
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep

_running: Tap | None = None
_lock = _thread.RLock()  # re-entrant: a signal handler may stop the tap that is being started
_exit_handler_registered = False


def trace(
    output: str | os.PathLike[str] | None = None, *, engine: str = "auto", c_calls: bool = False, gc: bool = True
) -> Tap:
    """A tap that records every call of every thread of this process.

    Use it as a context manager, as a decorator, or through ``start()`` and ``stop()``. Parameters are
    those of :class:`Options`.

    Raises
    ------
    OptionError
        An option has a value that it cannot have.

    Examples
    --------
    >>> with frametap.trace("run.ftap") as tap:  # doctest: +SKIP
    ...     with tap.span("load"):
    ...         load()
    """
    return Tap(Options(output=output, engine=engine, c_calls=c_calls, gc=gc))


class Tap:
    """One recording at a time, to one file. Made by :func:`frametap.trace`.

    A tap can be started again after it was stopped; as a name that this process has written is never
    overwritten by it, the second capture is ``X.2.ftap``.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._output = os.path.abspath(os.fsdecode(options.output) if options.output is not None else _default_output())
        self._spool = ""
        self._folder = ""
        self._info: dict[str, Any] = {}  # of process.json
        self._engine = ""
        self._pid = 0  # of the process that records; 0 while none does
        self._core: Any = None

    @property
    def path(self) -> Path:
        """The capture: the one last recorded, else the one asked for. Numbered if its name was taken."""
        from pathlib import Path

        return Path(self._output)

    @property
    def engine(self) -> str:
        """The engine that records, once started."""
        return self._engine

    def __repr__(self) -> str:
        state = "recording" if self._pid == os.getpid() else "not recording"
        return f"<tap {self._output!r}, {state}>"

    # ---- start and stop ----------------------------------------------------------------------

    def start(self) -> Self:
        """Start recording; returns the tap.

        Raises
        ------
        StateError
            Something already records in this process.
        CaptureError
            The output cannot be written there.
        UnsupportedError
            The engine that was asked for does not exist here.
        """
        global _running, _exit_handler_registered
        with _lock:
            core = load_core()
            if _running is not None and (_running._pid == os.getpid() or core.is_started()):
                raise StateError(f"already recording to {_running._output}; stop that tap before starting another")
            wanted = self.options.output
            output, spool = claim(self._output if wanted is None else os.fsdecode(wanted))
            try:
                options = self.options.to_dict()
                describe_spool(spool, output, options)
                folder, self._info = add_process(spool, options)
                if not _exit_handler_registered:
                    atexit.register(_stop_at_exit)
                    _exit_handler_registered = True
                self._output, self._spool, self._folder, self._core = output, spool, folder, core
                self._pid = os.getpid()
                _running, annotate.recording_core = self, core
                self._engine = core.start(
                    folder, _PACKAGE_FOLDER, self.options.engine, self.options.c_calls, self.options.gc
                )
            except BaseException as error:
                self._pid = 0
                _running = annotate.recording_core = None
                _remove(spool)
                if isinstance(error, OSError):
                    raise CaptureError(output, f"recording cannot start: {error}") from error
                if isinstance(error, (RuntimeError, ValueError)) and not isinstance(error, FrametapError):
                    raise UnsupportedError(f"recording cannot start: {error}") from error
                raise
        return self

    def stop(self, *, progress: Callable[[int, int], None] | None = None) -> Path:
        """Stop recording and write the capture. Any thread may call it.

        In a process that was forked while the tap recorded, this ends the child's part only: the
        capture is written by the process that started the tap.

        Parameters
        ----------
        progress : callable, optional
            Called with (done, total) bytes while the capture is written.

        Returns
        -------
        pathlib.Path
            The capture.

        Raises
        ------
        StateError
            This tap is not recording.
        CaptureError
            The capture cannot be written (disk full). What was recorded is kept: the message says
            where, and how to get it.
        """
        if self.end():
            self.write(progress=progress)
        return self.path

    def end(self) -> bool:
        """The first half of :meth:`stop`: record no more.

        Returns
        -------
        bool
            Whether this process is the one to :meth:`write` the capture: not a forked child.
        """
        global _running
        with _lock:
            core, pid = self._require_recording("stop"), self._pid
            core.stop()
            self._pid = 0
            if _running is self:
                _running = annotate.recording_core = None
        return pid == os.getpid()

    def write(self, *, progress: Callable[[int, int], None] | None = None) -> None:
        """The second half of :meth:`stop`: make the capture of what was recorded."""
        from pathlib import Path

        from ..store import pack

        try:
            tell_engine(self._folder, self._info, self._engine)
            pack(Path(self._spool), Path(self._output), progress=progress)
        except (OSError, FrametapError) as error:
            raise CaptureError(
                self._output,
                f"could not be written ({error}); the recording is kept, get it with: frametap recover {self._spool}",
            ) from error
        remember_written(self._output)

    def pause(self) -> None:
        """Record nothing until :meth:`resume`. What is running ends its part of the trace here."""
        self._require_recording("pause").pause()

    def resume(self) -> None:
        """Go on after :meth:`pause`."""
        self._require_recording("resume").resume()

    def _require_recording(self, wish: str) -> Any:
        if not self._pid:
            raise StateError(f"cannot {wish}: the tap for {self._output} is not recording")
        return self._core

    # ---- annotations -------------------------------------------------------------------------

    def span(self, name: str) -> AbstractContextManager[Any]:
        """A named range on this thread's timeline, for a ``with`` statement."""
        return self._core.Span(name) if self._pid else annotate.NO_SPAN

    def mark(self, name: str) -> None:
        """A named moment on this thread's timeline."""
        if self._pid:
            self._core.instant(name)

    def counter(self, name: str, value: float) -> None:
        """The value of a named quantity at this moment."""
        if self._pid:
            self._core.counter(name, value)

    # ---- with and @ --------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if not self._pid:  # stopped inside the block
            return
        try:
            self.stop()
        except CaptureError as error:
            if exc is None:
                raise
            exc.add_note(f"frametap: {error}")  # the program's own exception matters more

    def __call__(self, function: Function) -> Function:
        """Decorate: record while ``function`` runs.

        A coroutine function is recorded while it is awaited, a generator function from its first step
        to its end. A call inside a running one is part of that recording.

        Raises
        ------
        TypeError
            Not a function, or an asynchronous generator function, whose end may never be reached.
        """
        from functools import wraps
        from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction

        if isinstance(function, type) or not callable(function) or isasyncgenfunction(function):
            raise TypeError(f"a tap decorates functions, generator functions and coroutine functions, not {function!r}")
        call: Callable[..., Any] = function

        def recording() -> AbstractContextManager[Any]:
            return annotate.NO_SPAN if _running is self else self

        if iscoroutinefunction(function):

            @wraps(function)
            async def run(*args: Any, **kwargs: Any) -> Any:
                with recording():
                    return await call(*args, **kwargs)

        elif isgeneratorfunction(function):

            @wraps(function)
            def run(*args: Any, **kwargs: Any) -> Any:
                with recording():
                    return (yield from call(*args, **kwargs))

        else:

            @wraps(function)
            def run(*args: Any, **kwargs: Any) -> Any:
                with recording():
                    return call(*args, **kwargs)

        return run  # type: ignore[return-value]


def _default_output() -> str:
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    name = os.path.splitext(program)[0]
    return f"{name if name not in ('', '-', '-c', '-m') else 'frametap'}.ftap"


def _remove(folder: str) -> None:
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)


def _stop_at_exit() -> None:
    """Stop a tap that was left running. Nobody can catch an error any more: one line says it."""
    tap = _running
    if tap is None or tap._pid != os.getpid():
        return
    try:
        tap.stop()
    except FrametapError as error:
        if sys.__stderr__ is not None:
            print(f"frametap: {error}", file=sys.__stderr__)
    finally:
        keep_interrupted_status()


def keep_interrupted_status() -> None:
    """Have an interrupted program (an unhandled KeyboardInterrupt) still exit by SIGINT.

    The interpreter remembers the interrupt in a flag that every ``exec`` of a string clears, and the
    imports that packing needs exec strings (dataclasses do). An exec that is interrupted sets it again.
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        try:
            exec("raise KeyboardInterrupt")  # noqa: S102 - nothing else sets the flag
        except KeyboardInterrupt:
            pass
