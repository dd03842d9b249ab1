"""Which resumes belong to one generator, across threads and addresses used again."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from frametap.replay.instances import number_instances


def number(resumes: list[tuple[int, int, bool, int]]) -> list[int]:
    columns = np.array(resumes, dtype=np.int64).reshape(-1, 4).T
    return list(map(int, number_instances(columns[0], columns[1].astype(np.uint64), columns[2], columns[3])))


def test_resumes_of_one_address_are_one_instance() -> None:
    assert number([(1, 0xA, True, 0), (2, 0xB, True, 0), (3, 0xA, False, 0)]) == [1, 2, 1]


def test_an_address_used_again_is_another_instance() -> None:
    assert number([(1, 0xA, True, 0), (2, 0xA, True, 0), (3, 0xA, False, 0)]) == [1, 2, 2]


def test_another_function_at_an_address_is_another_instance() -> None:
    assert number([(1, 0xA, True, 0), (2, 0xA, False, 5), (3, 0xA, False, 5)]) == [1, 2, 2]


def test_threads_are_put_together_by_time() -> None:
    """The second thread takes the generator over, and the first thread then reuses its address."""
    first = [(1, 0xA, True, 0), (9, 0xA, True, 0)]
    second = [(5, 0xA, False, 0)]
    assert number([*first, *second]) == [1, 2, 1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans(), st.integers(0, 1)), max_size=30))
def test_the_twin_agrees(oracle: Any, resumes: list[tuple[int, int, bool, int]]) -> None:
    assert number(resumes) == oracle.instances(resumes)
