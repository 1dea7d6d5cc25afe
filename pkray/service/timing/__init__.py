"""Time in the service: what is done later, or again and again.

- **timer** (`debounced_timer`): does work a little later, unless it is put off again.
- **pulse** (`pulse`): does work again and again while its object lives.
- **elapsed** (`elapsed`): time that has gone by on a clock that somebody may set back.

Clocks and threads are given from outside, so that tests turn them by hand.
"""
