"""The program whose instructions are counted: ``program.py MODE N FOLDER``; MODE is untraced, python or c_calls.

It records through the core alone and ends without stopping: only what a call costs differs between two N.
"""

import os
import sys


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def main(mode, n, folder):
    if mode != "untraced":
        import frametap
        from frametap import _core

        _core.start(folder, os.path.dirname(frametap.__file__), "auto", mode == "c_calls", False)
    fib(n)
    os._exit(0)


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
