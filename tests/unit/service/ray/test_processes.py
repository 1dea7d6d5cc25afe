"""What of a log of Ray is of interest."""

from pkray.service.ray.processes import remarks

LOG = """\
Global stats: 10 total
[2026-11-28 08:30:19,927 I 1359 1359] core_worker.cc:3247: Creating actor
\tevents dropped: 0
[2026-11-28 08:30:21,200 W 1359 1359] actor_manager.cc:110: no such actor
[2026-11-28 08:30:22,001 E 1359 1518] core_worker.cc:1: it failed
\tat one place
\tat another
[2026-11-28 08:30:23,218 I 1359 1518] accessor.cc:475: alive
and more of it
"""


def test_information_of_ray_is_left_out_and_errors_are_whole():
    assert list(remarks(LOG)) == [
        "[2026-11-28 08:30:21,200 W 1359 1359] actor_manager.cc:110: no such actor",
        "[2026-11-28 08:30:22,001 E 1359 1518] core_worker.cc:1: it failed",
        "\tat one place",
        "\tat another",
    ]
