"""Functions of dates and times.

::

    parts, arithmetic, truncation, formats, epoch, shifts, now      functions, by what they do
      └▶ arguments: what they take            kernels: how they compute
           └▶ calendar, time_patterns: days and texts, as numpy

- **times** (`calendar.Times`): ticks of one size since 1970: days (int32) or microseconds (int64).
- The session's time zone is UTC: times of TIMESTAMP_LTZ are shown, read and cut there. Functions
  with a zone in their name or arguments take any.
- What tells the time, as ``current_timestamp`` does, is fixed once a run: `at_instant` puts
  constants in its place. ``replaced`` refuses functions whose work table functions do.
"""
