"""The result of an analysis: columns of one length, read by name, by row, or sorted.

In: columns. Out: the same, never changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, overload

import numpy as np


class Stats:
    """Rows of an analysis.

    Parameters
    ----------
    columns : mapping of str to numpy.ndarray
        All of one length. Times are int64 ns; names are object arrays of str.

    Examples
    --------
    >>> stats = Stats({"name": np.array(["f", "g"], object), "calls": np.array([1, 3])})
    >>> stats[1], stats["calls"].tolist(), len(stats)
    ({'name': 'g', 'calls': 3}, [1, 3], 2)
    >>> stats.sorted_by("calls").head(1)[0]["name"]
    'g'
    """

    def __init__(self, columns: Mapping[str, np.ndarray]) -> None:
        self.columns = dict(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @overload
    def __getitem__(self, which: str) -> np.ndarray: ...
    @overload
    def __getitem__(self, which: int) -> dict[str, Any]: ...

    def __getitem__(self, which: str | int) -> np.ndarray | dict[str, Any]:
        """A column by name, or a row by number as a dict of plain Python values."""
        if isinstance(which, str):
            return self.columns[which]
        if not -len(self) <= which < len(self):
            raise IndexError(which)
        return {name: _plain(column[which]) for name, column in self.columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def sorted_by(self, name: str, *, descending: bool | None = None) -> Stats:
        """Sorted by a column; numbers from the greatest by default, names alphabetically. Stable."""
        column = self.columns[name]
        if descending is None:
            descending = column.dtype != object
        if not descending:
            return self.take(np.argsort(column, kind="stable"))
        # Stable from the end, so that equal rows stay in their order.
        return self.take(len(self) - 1 - np.argsort(column[::-1], kind="stable")[::-1])

    def head(self, n: int | None) -> Stats:
        """The first ``n`` rows; all for None."""
        return Stats({name: column[:n] for name, column in self.columns.items()})

    def take(self, rows: np.ndarray) -> Stats:
        """Rows by number or mask."""
        return Stats({name: column[rows] for name, column in self.columns.items()})

    def __repr__(self) -> str:
        return f"<{len(self)} rows, columns {', '.join(self.columns)}>"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
