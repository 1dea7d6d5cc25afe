import numpy as np
import pytest

from pkray.lsm.keys.value_order import sort_values


@pytest.mark.parametrize("spread", [50, 1 << 62])
@pytest.mark.parametrize("runs", [1, 3, 1000])
def test_values_in_sorted_runs_are_sorted_as_others(runs: int, spread: int) -> None:
    rng = np.random.default_rng(runs)
    values = np.concatenate([np.sort(rng.integers(0, spread, 3000 // runs)) for _ in range(runs)])
    order, differs = sort_values(values, stable=True)
    assert np.array_equal(order, np.argsort(values, kind="stable"))
    assert np.array_equal(differs, np.diff(values[order]) != 0)
