"""Functions of dates and times.

Kernels compute with numpy: days since 1970 (int32) and microseconds of a day or since 1970 (int64).
`calendar` takes them apart into years, months and days, `zones` shifts between UTC and wall clocks,
`time_patterns` writes and reads texts such as ``yyyy-MM-dd``. `time` has the functions.
"""
