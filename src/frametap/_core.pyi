"""The compiled core; core/module.cpp."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT_VERSION: int

def find_segments(fd: int, file_bytes: int, chunk_bytes: int) -> dict[str, NDArray[Any]]: ...
def count_events(words: NDArray[np.uint64]) -> NDArray[np.uint64]: ...
