"""Check what users pass, before anything happens.

`checked` and `checked_class` (`facade`) read the annotations of public calls once and refuse
arguments that do not fit them by a `PkrayError`, which names the argument, its value and what to
give. ``checks`` makes a check of an annotation; `Give` beside a type says the remedy and the
error's class. ``file_names`` is the one place that says which names may become part of a path,
``whole_number`` reads numbers that have to be whole.
"""
