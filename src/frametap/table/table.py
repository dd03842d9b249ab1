"""A table: named NumPy columns of one length.

In: columns as declared in :mod:`frametap.table.schema`. Out: columns by name, whole or as row slices.
Invariant: every column has the declared dtype and the same length. No row objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .schema import SCHEMA


class Table(Mapping[str, np.ndarray]):
    """Columns of one kind of thing.

    Parameters
    ----------
    kind : str
        A key of :data:`frametap.table.schema.SCHEMA`.
    columns : mapping of str to array-like
        All declared columns, all of one length; cast to the declared dtypes.

    Examples
    --------
    >>> t = Table("sites", {"function": [0], "caller": [-1], "line": [-1]})
    >>> len(t["line"]), t.n_rows
    (1, 1)
    """

    def __init__(self, kind: str, columns: Mapping[str, Sequence[Any] | np.ndarray]) -> None:
        declared = SCHEMA[kind]
        if set(columns) != {c.name for c in declared}:
            raise ValueError(f"table {kind}: columns {sorted(columns)}, expected {[c.name for c in declared]}")
        self.kind = kind
        self._columns: dict[str, np.ndarray] = {}
        for c in declared:
            dtype = object if c.dtype == "str" else np.dtype(c.dtype)
            self._columns[c.name] = np.asarray(columns[c.name], dtype=dtype)
        lengths = {len(a) for a in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"table {kind}: columns of different lengths {sorted(lengths)}")
        self.n_rows = lengths.pop()

    @classmethod
    def empty(cls, kind: str) -> Table:
        return cls(kind, {c.name: [] for c in SCHEMA[kind]})

    def take(self, rows: Any) -> Table:
        """The same columns, of some rows.

        Parameters
        ----------
        rows : slice, array-like of int, or array of bool
            In the order wanted. References of other tables to this one do not follow.

        Examples
        --------
        >>> Table("sites", {"function": [7, 8], "caller": [-1, 0], "line": [-1, 3]}).take([1])["function"].tolist()
        [8]
        """
        if not isinstance(rows, slice):
            rows = np.asarray(rows)
            rows = rows if rows.dtype == bool else rows.astype(np.intp)
        return Table(self.kind, {name: column[rows] for name, column in self._columns.items()})

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._columns[name]
        except KeyError:
            raise KeyError(f"table {self.kind} has no column {name!r}; it has {list(self._columns)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<{self.kind}: {self.n_rows} rows, columns {', '.join(self._columns)}>"

    def to_arrow(self) -> Any:
        """As a :class:`pyarrow.Table` (needs pyarrow)."""
        pa = import_module("pyarrow")
        return pa.table({k: pa.array(v) for k, v in self._columns.items()})

    def to_polars(self) -> Any:
        """As a :class:`polars.DataFrame` (needs polars)."""
        pl = import_module("polars")
        return pl.DataFrame({k: v.tolist() if v.dtype == object else v for k, v in self._columns.items()})

    def to_pandas(self) -> Any:
        """As a :class:`pandas.DataFrame` (needs pandas)."""
        pd = import_module("pandas")
        return pd.DataFrame(dict(self._columns))
