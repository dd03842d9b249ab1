"""The few parts of protobuf's wire format that writing needs, for single values and for columns.

In: numbers and bytes. Out: encoded fields. Invariant: what is returned is valid by
https://protobuf.dev/programming-guides/encoding/. Columns are encoded at fixed width, as varints padded with
empty groups, which every reader takes; that lets one array operation write a whole column.
"""

from __future__ import annotations

import numpy as np

VARINT, FIXED64, LENGTH = 0, 1, 2


def varint(value: int) -> bytes:
    """A non-negative integer.

    Examples
    --------
    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field: int, kind: int) -> bytes:
    return varint(field << 3 | kind)


def uint(field: int, value: int) -> bytes:
    return tag(field, VARINT) + varint(value)


def signed(field: int, value: int) -> bytes:
    """An int32 or int64 field: negatives as 64-bit two's complement."""
    return uint(field, value & 0xFFFF_FFFF_FFFF_FFFF)


def blob(field: int, value: bytes) -> bytes:
    """Bytes, or an encoded message."""
    return tag(field, LENGTH) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    return blob(field, value.encode())


def padded_width(highest: int) -> int:
    """Bytes that a varint of up to ``highest`` takes."""
    return max(1, -(-highest.bit_length() // 7))


def put_padded(out: np.ndarray, values: np.ndarray) -> None:
    """Write non-negative ``values`` as varints as wide as the rows of ``out``.

    Parameters
    ----------
    out : ndarray of uint8, shape (n, width)
    values : ndarray of integers, shape (n,)
        Each below ``2 ** (7 * width)``.
    """
    width = out.shape[1]
    if width <= 4:
        values = values.astype(np.uint32)
    for k in range(width):
        group = (values >> (7 * k)).astype(np.uint8)
        np.bitwise_or(group, 0x80, out=out[:, k]) if k < width - 1 else np.bitwise_and(group, 0x7F, out=out[:, k])


def scatter(out: np.ndarray, offsets: np.ndarray, records: np.ndarray) -> None:
    """Copy records of one width to byte offsets of a buffer.

    Parameters
    ----------
    out : ndarray of uint8, shape (size,)
    offsets : ndarray of int64, shape (n,)
        ``offset + width <= size`` for each.
    records : ndarray of uint8, shape (n, width)
        Contiguous.
    """
    width = records.shape[1]
    if not len(records):
        return
    # One item per byte offset, each `width` bytes wide: NumPy then copies whole records.
    places = np.ndarray((len(out) - width + 1,), dtype=f"V{width}", buffer=out, strides=(1,))
    places[offsets] = records.view(f"V{width}").ravel()


def take(templates: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """``templates[rows]``, whole records at a time.

    Parameters
    ----------
    templates : ndarray of uint8, shape (kinds, width)
        Contiguous.
    rows : ndarray of integers, shape (n,)
    """
    width = templates.shape[1]
    records: np.ndarray = templates.view(f"V{width}").ravel()[rows].view(np.uint8).reshape(-1, width)
    return records
