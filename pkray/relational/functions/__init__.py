"""Functions: what each is called, how it is typed, how it is computed here and on Spark."""
