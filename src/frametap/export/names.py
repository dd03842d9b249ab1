"""Names as profilers for Python write them, for the formats whose readers know those.

In: functions' names as in the tables. Out: one text per function. Invariant: nothing is left out that tells two
functions apart, but the part of a path that is the installation's.
"""

from __future__ import annotations

import re

from ..table import Table

# What Kineto strips: the folder that modules are looked up in.
_LIBRARY = re.compile(r"^.*?/(?:site-packages|dist-packages|lib/python3\.\d+t?)/(?!site-packages/|dist-packages/)")


def short_path(path: str) -> str:
    """Return a source path below the folder of installed or standard modules, else as it is.

    Examples
    --------
    >>> short_path("/usr/lib/python3.11/site-packages/torch/nn/modules/linear.py")
    'torch/nn/modules/linear.py'
    >>> short_path("/home/me/train.py")
    '/home/me/train.py'
    """
    return _LIBRARY.sub("", path)


def builtin_name(name: str, module: str) -> str:
    """Return a C function's name in the manner of its ``repr``.

    Examples
    --------
    >>> builtin_name("list.append", ""), builtin_name("sqrt", "math"), builtin_name("len", "builtins")
    ('<built-in method list.append>', '<built-in function math.sqrt>', '<built-in function len>')
    """
    if name.startswith("<"):
        return name
    if "." in name:
        return f"<built-in method {name}>"
    return f"<built-in function {name if module in ('', 'builtins') else f'{module}.{name}'}>"


def kineto_names(functions: Table, names: list[str], files: list[str]) -> list[str]:
    """Return per function ``path(line): name``, or for one without source ``<built-in …>``.

    Parameters
    ----------
    functions : Table
    names, files : list of str
        Its columns, cleaned.
    """
    out = []
    for name, file, kind, module, line in zip(
        names, files, functions["kind"].tolist(), functions["module"].tolist(), functions["line"].tolist(), strict=True
    ):
        if kind == "python":
            out.append(f"{short_path(file)}({max(line, 0)}): {name}")
        else:
            out.append(builtin_name(name, module) if kind == "c" else name)
    return out
