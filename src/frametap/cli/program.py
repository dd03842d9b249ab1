"""Run a program as the interpreter itself would.

In: ``script args``, ``-m module args`` or ``-c code args``. Out: the program has run in a fresh
``__main__``, with ``sys.argv`` and ``sys.path[0]`` as Python sets them; what it raises comes out as it
is. Invariant: nothing printed by the interpreter at the end names a frame of frametap.

Each step says which part of CPython's ``Modules/main.c`` it stands for. What differs: frames of ours
lie under the program's, visible to ``inspect.stack()``; an interactive session is not offered.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import BuiltinImporter, SourceFileLoader, SourcelessFileLoader
from types import ModuleType

from ..record.support import load_core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType, TracebackType
    from typing import Any


_COUNTS_C_CALLS = sys.version_info < (3, 12)  # as levels of recursion


class Program:
    """A program that is about to run.

    Attributes
    ----------
    name : str
        What to name its capture after.
    is_there : bool
        False: a module that does not exist, or a syntax error. Running it says so; there is nothing to record.
    """

    def __init__(self, name: str, start: Callable[[], None], *, n_levels: int = 0, is_there: bool = True) -> None:
        self.name = name
        self.is_there = is_there
        self._start = start
        self._n_levels = n_levels  # of recursion that ``start`` takes before the program's own
        self._core = load_core()  # now: later its import would be recorded

    def run(self) -> None:
        """Run it; everything it raises comes out."""
        self._core.give_recursion_room(_depth_of_our_frames() + self._n_levels)
        try:
            self._start()
        except SystemExit:
            raise
        except BaseException:
            _hide_frames_below(Program.run.__code__)
            raise


def _depth_of_our_frames() -> int:
    """Levels of recursion below the program that it would not have under python."""
    frame: FrameType | None = sys._getframe(1)
    depth = 0
    while frame is not None:
        depth += 1
        frame = frame.f_back
    return depth


def load(kind: str, target: str, arguments: list[str]) -> Program:
    """Prepare ``sys`` and ``__main__`` for a program and read it.

    Parameters
    ----------
    kind : str
        "script", "module" or "command".
    target : str
        Path, module name or code.

    Raises
    ------
    OSError
        The script cannot be read.
    """
    main = _fresh_main()
    try:
        if kind == "module":
            return _load_module(target, arguments)
        if kind == "command":
            return _load_command(main, target, arguments)
        return _load_script(main, target, arguments)
    except SyntaxError as error:
        failed = error

        def fail() -> None:
            raise failed.with_traceback(None)

        return Program("", fail, is_there=False)


def _load_module(name: str, arguments: list[str]) -> Program:
    """pymain_run_module"""
    from importlib.util import find_spec

    sys.argv = ["-m", *arguments]
    _set_first_path(os.getcwd())
    top = name.partition(".")[0]
    is_there = top in sys.modules or (top != "" and find_spec(top) is not None)
    return _program_of_runpy(name, name, alter_argv=True, is_there=is_there)


def _load_command(main: ModuleType, source: str, arguments: list[str]) -> Program:
    """pymain_run_command"""
    sys.argv = ["-c", *arguments]
    _set_first_path("")
    main.__loader__ = BuiltinImporter
    if sys.version_info >= (3, 14):
        from textwrap import dedent

        source = dedent(source)
    source += "\n"
    code = compile(source, "<string>", "exec", dont_inherit=True)
    if sys.version_info >= (3, 13):
        import linecache

        key = code if sys.version_info >= (3, 14) else "<string>"
        linecache._register_code(key, source, "<string>")  # type: ignore[attr-defined]
    return _program_of_code("command", code, main)


def _load_script(main: ModuleType, path: str, arguments: list[str]) -> Program:
    """pymain_run_file and, for "-", pymain_run_stdin"""
    sys.argv = [path, *arguments]
    filename = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    if path != "-" and _is_importable_from(filename):  # a folder or archive with a __main__.py
        _set_first_path(filename, even_if_safe=True)
        return _program_of_runpy(_stem(path), "__main__", alter_argv=False)
    if path == "-":
        _set_first_path("")
        filename, data = "<stdin>", sys.stdin.buffer.read()
        main.__loader__ = BuiltinImporter
    else:
        from io import open_code

        with open_code(filename) as file:
            data = file.read()
        _set_first_path(os.path.dirname(os.path.realpath(path)))
        main.__loader__ = SourceFileLoader("__main__", filename)
    code = _code_of_compiled(data) if path != "-" else None
    if code is not None:
        main.__loader__ = SourcelessFileLoader("__main__", filename)
    else:
        code = compile(data, filename, "exec", dont_inherit=True)
    names = main.__dict__
    names["__file__"] = filename
    if sys.version_info < (3, 15):
        names["__cached__"] = None
    return _program_of_code(_stem(path) if path != "-" else "stdin", code, main)


def _code_of_compiled(data: bytes) -> CodeType | None:
    """The code in the bytes of a .pyc file; None if they are source (maybe_pyc_file, run_pyc_file)."""
    from importlib.util import MAGIC_NUMBER

    if not data.startswith(MAGIC_NUMBER):
        return None
    import marshal

    code: CodeType = marshal.loads(data[16:])
    return code


def _is_importable_from(path: str) -> bool:
    """Whether some finder takes ``path`` for a folder or an archive (pymain_get_importer)."""
    for hook in sys.path_hooks:
        try:
            hook(path)
            return True
        except ImportError:
            continue
    return False


def _program_of_code(name: str, code: CodeType, main: ModuleType) -> Program:
    # Levels: the lambda; in 3.11 also the C calls of exec and of the code it runs.
    return Program(name, lambda: exec(code, main.__dict__), n_levels=3 if _COUNTS_C_CALLS else 1)  # noqa: S102


def _program_of_runpy(name: str, module: str, *, alter_argv: bool, is_there: bool = True) -> Program:
    """What ``python -m`` calls. Its errors for missing modules and packages leave by sys.exit()."""
    import runpy

    start = runpy._run_module_as_main  # type: ignore[attr-defined]
    # Levels: the lambda; in 3.11 also a C call that plain Python has not got.
    return Program(name, lambda: start(module, alter_argv), n_levels=2 if _COUNTS_C_CALLS else 1, is_there=is_there)


def _fresh_main() -> ModuleType:
    """A new ``__main__`` in place of ours, with the names CPython gives it, in its order."""
    main = ModuleType("__main__")
    if "__annotations__" in vars(sys.modules["__main__"]):  # up to 3.13
        main.__annotations__ = {}
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    return main


def _set_first_path(path: str, even_if_safe: bool = False) -> None:
    """Put ``path`` where Python put our own folder (pymain_run_python: path0)."""
    if not sys.flags.safe_path:
        sys.path[0] = path
    elif even_if_safe:
        sys.path.insert(0, path)


def _stem(path: str) -> str:
    name = os.path.basename(os.path.abspath(path))
    stem, suffix = os.path.splitext(name)
    return stem if suffix in (".py", ".pyc", ".pyz", ".zip") else name


def _hide_frames_below(code: CodeType) -> None:
    """Have the hook that prints the traceback see the program's part of it: what lies above ``code``."""
    print_traceback = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> Any:
        sys.excepthook = print_traceback
        own = traceback
        while own is not None and own.tb_frame.f_code is not code:
            own = own.tb_next
        if own is not None:
            traceback = own.tb_next  # the frame that called the program
            while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
                traceback = traceback.tb_next
        error.__traceback__ = sys.last_traceback = traceback
        return print_traceback(kind, error, traceback)

    sys.excepthook = show
