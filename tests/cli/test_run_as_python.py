"""A program under ``frametap run`` prints, raises and exits exactly as under plain Python."""

from __future__ import annotations

import io
import re
import zipfile

import pytest

SHOW_MAIN = """
import sys
main = sys.modules["__main__"]
for name, value in list(vars(main).items()):
    if name in ("__builtins__", "__loader__", "__spec__"):
        value = getattr(value, "__name__", type(value).__name__), getattr(value, "name", None)
    print(name, value)
print(vars(main) is globals(), sys.argv, sys.path)
"""
RECURSION = """
import sys
def f(n):
    try: return f(n + 1)
    except RecursionError: return n
print(f(0), sys.getrecursionlimit())
"""
HANDLERS = """
import atexit, sys, threading
started, may_end = threading.Event(), threading.Event()
def work():
    started.set()
    may_end.wait(10)
    print("thread")
threading.Thread(target=work).start()
started.wait(10)
atexit.register(print, "first registered")
atexit.register(may_end.set) if len(sys.argv) > 1 else threading.Timer(0.01, may_end.set).start()
atexit.register(print, "last registered")
print("main done")
"""
SPAWN = """
import multiprocessing, pickle, sys
class Thing:
    def __init__(self, x): self.x = x
def double(thing): return Thing(thing.x * 2)
if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(Thing)) is Thing)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [Thing(1), Thing(2)])[1].x)
"""


def without_addresses(text: bytes) -> bytes:
    return re.sub(rb"0x[0-9a-f]+", b"0x", text)


def archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("__main__.py", SHOW_MAIN + "import helper; print(helper.x)")
        z.writestr("helper.py", "x = 5")
    return file.getvalue()


def compiled() -> bytes:
    import importlib._bootstrap_external as external

    return bytes(external._code_to_timestamp_pyc(compile("print(__file__, __name__)", "a.py", "exec")))


# name: (files, arguments)
SCRIPTS: dict[str, tuple[dict[str, str | bytes], tuple[str, ...]]] = {
    "script": ({"a.py": SHOW_MAIN}, ("a.py", "x", "-o", "--quiet", "")),
    "script elsewhere": ({"sub/a.py": SHOW_MAIN}, ("./sub/../sub/a.py",)),
    "module": ({"a.py": SHOW_MAIN}, ("-m", "a", "-m", "x")),
    "package": ({"p/__init__.py": "print('init')", "p/__main__.py": SHOW_MAIN}, ("-m", "p", "--help")),
    "submodule": ({"p/__init__.py": "", "p/m.py": SHOW_MAIN + "from . import n", "p/n.py": ""}, ("-mp.m",)),
    "missing module": ({"a.py": ""}, ("-m", "does_not_exist")),
    "missing submodule": ({"p/__init__.py": ""}, ("-m", "p.nothing")),
    "package without main": ({"p/__init__.py": ""}, ("-m", "p")),
    "code": ({"a.py": ""}, ("-c", SHOW_MAIN, "x")),
    "attached code": ({"a.py": ""}, ("-cprint(1)", "x")),
    "code that fails": ({"a.py": ""}, ("-c", "def f():\n  1/0\nf()")),
    "folder": ({"d/__main__.py": SHOW_MAIN + "import other", "d/other.py": "print(1)"}, ("d", "x")),
    "folder without main": ({"d/a.py": ""}, ("d",)),
    "archive": ({"a.pyz": archive()}, ("a.pyz", "x")),
    "compiled": ({"a.pyc": compiled()}, ("a.pyc",)),
    "no extension": ({"tool": "#!/usr/bin/env python\n" + SHOW_MAIN}, ("tool",)),
    "latin-1": ({"a.py": b"# coding: latin-1\nprint(ascii('\xe9'))"}, ("a.py",)),
    "exit integer": ({"a.py": "import sys; sys.exit(7)"}, ("a.py",)),
    "exit large integer": ({"a.py": "import sys; sys.exit(1 << 40)"}, ("a.py",)),
    "exit none": ({"a.py": "import sys; sys.exit()"}, ("a.py",)),
    "exit text": ({"a.py": "import sys; sys.exit('no')"}, ("a.py",)),
    "exit tuple": ({"a.py": "raise SystemExit(1, 2)"}, ("a.py",)),
    "os._exit": ({"a.py": "import os; print(1, flush=True); os._exit(4)"}, ("a.py",)),
    "exception": ({"a.py": "def f():\n    raise ValueError('é')\nprint(1)\nf()"}, ("a.py",)),
    "exception in module": ({"a.py": "def f(): return {}['x']\nf()"}, ("-m", "a")),
    "chained": ({"a.py": "try: 1/0\nexcept Exception as e: raise KeyError from e"}, ("a.py",)),
    "group": ({"a.py": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])"}, ("a.py",)),
    "syntax error": ({"a.py": "x = 1\ny = ("}, ("a.py",)),
    "own hook": ({"a.py": "import sys\nsys.excepthook = lambda *a: print(a[:2], a[2].tb_lineno)\n1/0"}, ("a.py",)),
    "hook raises exit": ({"a.py": "import sys\ndef h(*a): sys.exit(9)\nsys.excepthook = h\n1/0"}, ("a.py",)),
    "post mortem": (
        {
            "a.py": "import atexit, sys\natexit.register(lambda: print(sys.last_traceback.tb_frame.f_code.co_filename))\n1/0"
        },
        ("a.py",),
    ),
    "interrupted": ({"a.py": "import signal; signal.raise_signal(2)"}, ("a.py",)),
    "interrupted module": ({"a.py": "import signal; signal.raise_signal(2)"}, ("-m", "a")),
    "interrupted code": ({"a.py": ""}, ("-c", "import signal; signal.raise_signal(2)")),
    "terminated": ({"a.py": "import os; os.kill(os.getpid(), 15)"}, ("a.py",)),
    "killed": ({"a.py": "import os; os.kill(os.getpid(), 9)"}, ("a.py",)),
    "handles terminate": (
        {"a.py": "import signal, sys\nsignal.signal(15, lambda *a: sys.exit(5))\nsignal.raise_signal(15)"},
        ("a.py",),
    ),
    "threads and handlers": ({"a.py": HANDLERS}, ("a.py",)),
    "failing handler": ({"a.py": "import atexit; atexit.register(lambda: 1/0)"}, ("a.py",)),
    "thread raises": ({"a.py": "import threading; threading.Thread(target=lambda: 1/0, name='t').start()"}, ("a.py",)),
    "daemon thread": (
        {"a.py": "import threading, time; threading.Thread(target=lambda: time.sleep(99), daemon=True).start()"},
        ("a.py",),
    ),
    "executor at exit": (
        {"a.py": "import concurrent.futures as c\nx = c.ThreadPoolExecutor(2)\nx.submit(print, 1)"},
        ("a.py",),
    ),
    "forked child": (
        {"a.py": "import os, sys\npid = os.fork()\nif not pid: sys.exit(3)\nprint(os.waitpid(pid, 0)[1])"},
        ("a.py",),
    ),
    "forked child raises": (
        {"a.py": "import os\nif not os.fork(): 1/0\nprint(os.wait()[1])"},
        ("a.py",),
    ),
    "deleted at the end": ({"a.py": "class A:\n    def __del__(self): print('gone')\na = A()"}, ("a.py",)),
    "stdout closed": ({"a.py": "import os; os.close(1); print(1)"}, ("a.py",)),
    "stderr replaced": ({"a.py": "import sys, io; sys.stderr = io.StringIO(); print(1)"}, ("a.py",)),
    "spawned": ({"a.py": SPAWN}, ("a.py",)),
    "spawned from module": ({"p/__init__.py": "", "p/m.py": SPAWN}, ("-m", "p.m")),
    "recursion to the limit": ({"a.py": RECURSION}, ("a.py",)),
    "recursion of a module": ({"a.py": RECURSION}, ("-m", "a")),
    "recursion of code": ({"a.py": ""}, ("-c", RECURSION)),
    "no future leaks in": ({"a.py": "def f(x: undefined = 1): pass"}, ("a.py",)),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_program_behaves_as_under_python(both, name) -> None:
    files, arguments = SCRIPTS[name]
    plain, traced = both(files, *arguments)
    assert traced.stdout == plain.stdout
    assert traced.returncode == plain.returncode
    assert without_addresses(traced.stderr) == without_addresses(plain.stderr)


def test_program_comes_from_stdin_and_reads_it(both) -> None:
    plain, traced = both({"a.py": ""}, "-", "x", stdin=SHOW_MAIN.encode())
    assert (traced.stdout, traced.returncode) == (plain.stdout, plain.returncode)
    plain, traced = both({"a.py": "print(input())"}, "a.py", stdin=b"typed\n")
    assert traced.stdout == plain.stdout == b"typed\n"


def test_script_that_is_not_there_is_one_line_and_status_2(both) -> None:
    plain, traced = both({"a.py": ""}, "nothing.py")
    assert traced.returncode == plain.returncode == 2
    assert plain.stderr.partition(b": ")[2] == traced.stderr.partition(b": ")[2]


def test_safe_path_adds_no_folder(tmp_path) -> None:
    from .conftest import start

    (tmp_path / "a.py").write_text("import sys; print(sys.path)")
    plain = start(["a.py"], tmp_path, PYTHONSAFEPATH="1")
    traced = start(["-m", "frametap", "run", "-q", "a.py"], tmp_path, PYTHONSAFEPATH="1")
    assert traced.stdout == plain.stdout
