from tests.lsm_samples import small_slices

__all__ = ["small_slices"]
