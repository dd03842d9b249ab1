"""Decimal numbers as text, a column at a time.

In: non-negative integers. Out: their digits, right-aligned in rows of one width, blanks before them (which JSON
allows between values). Invariant: exact, by integer arithmetic alone.
"""

from __future__ import annotations

import numpy as np

_BLANK = ord(" ")
_POWERS = 10 ** np.arange(1, 19, dtype=np.int64)
#: The four digits of each number below 10 000.
_FOUR = np.frombuffer(b"".join(b"%04d" % k for k in range(10_000)), dtype=np.uint32)


def n_digits(value: int) -> int:
    """Digits of one non-negative number."""
    return len(str(value))


def put_decimal(out: np.ndarray, values: np.ndarray, *, least_digits: int = 1) -> None:
    """Write each value's digits into a row of ``out``.

    Parameters
    ----------
    out : ndarray of uint8, shape (n, width)
        A view will do.
    values : ndarray of int64, shape (n,)
        Not negative, of at most ``width`` digits.
    least_digits : int
        Zeros are written before a value that has fewer.

    Examples
    --------
    >>> out = np.zeros((2, 4), dtype=np.uint8)
    >>> put_decimal(out, np.array([7, 1234]))
    >>> out.tobytes()
    b'   71234'
    """
    n, width = out.shape
    groups = -(-width // 4)
    digits = np.empty((n, groups), dtype=np.uint32)
    rest = values
    for k in range(groups - 1, -1, -1):
        higher = rest // 10_000
        digits[:, k] = _FOUR[rest - higher * 10_000]
        rest = higher
    out[:] = digits.view(np.uint8)[:, 4 * groups - width :]
    if n and n_digits(int(values.min())) < width > least_digits:
        written = np.maximum(np.searchsorted(_POWERS, values, side="right") + 1, least_digits)
        np.copyto(out, _BLANK, where=np.arange(width) < (width - written)[:, None])


def put_thousandths(out: np.ndarray, values: np.ndarray) -> None:
    """Write ``values / 1000`` with three decimals; as :func:`put_decimal`, the point taking one place.

    Examples
    --------
    >>> out = np.zeros((2, 6), dtype=np.uint8)
    >>> put_thousandths(out, np.array([7, 12345]))
    >>> out.tobytes()
    b' 0.00712.345'
    """
    whole = values // 1000
    put_decimal(out[:, :-4], whole)
    out[:, -4] = ord(".")
    put_decimal(out[:, -3:], values - whole * 1000, least_digits=3)
