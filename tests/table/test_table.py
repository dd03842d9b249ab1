"""Tables hold what the schema declares."""

from __future__ import annotations

import numpy as np
import pytest

from frametap.table import Table

SITES = {"function": [3, 4, 5], "caller": [-1, 3, 4], "line": [1, 2, 3]}


def test_columns_are_cast_to_the_declared_types() -> None:
    table = Table("sites", SITES)
    assert {name: column.dtype.name for name, column in table.items()} == {
        "function": "uint32", "caller": "int64", "line": "int32",
    }  # fmt: skip


def test_a_column_too_few_or_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="expected"):
        Table("sites", {"function": [1]})
    with pytest.raises(ValueError, match="different lengths"):
        Table("sites", SITES | {"line": [1]})


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(KeyError, match="no column 'nmae'"):
        Table("sites", SITES)["nmae"]


@pytest.mark.parametrize("rows", [[2, 0], np.array([2, 0]), slice(None, None, -2)], ids=["list", "array", "slice"])
def test_taking_rows_keeps_their_order(rows: object) -> None:
    assert Table("sites", SITES).take(rows)["line"].tolist() == [3, 1]


def test_taking_by_a_mask() -> None:
    table = Table("sites", SITES)
    assert table.take(table["line"] > 1)["function"].tolist() == [4, 5]
    assert table.take([]).n_rows == 0
