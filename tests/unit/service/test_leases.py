"""How long sessions are held that nobody renews."""

from pkray.service.leases import Leases, beat_seconds
from pkray.service.protocol import SessionId

JOB, OTHER = SessionId("job", 1), SessionId("other", 1)


class Clock:
    def __init__(self):
        self.now = 5_000_000
        self.leases = Leases(30_000, lambda: self.now)
        self.leases.run_out()

    def after(self, seconds):
        """What has run out when it was looked every second."""
        found = []
        for _ in range(seconds):
            self.now += 1000
            found = self.leases.run_out()
        return found


def test_a_lease_runs_out_after_its_time():
    clock = Clock()
    clock.leases.renew(JOB)
    assert clock.after(29) == []
    assert clock.after(1) == [JOB]


def test_what_is_renewed_is_held_on():
    clock = Clock()
    clock.leases.renew(JOB)
    clock.leases.renew(OTHER)
    clock.after(20)
    clock.leases.renew(OTHER)
    assert clock.after(10) == [JOB]


def test_what_ended_does_not_run_out():
    clock = Clock()
    clock.leases.renew(JOB)
    clock.leases.end(JOB)
    assert clock.after(31) == []
    assert len(clock.leases) == 0


def test_time_in_which_nobody_looked_does_not_count():
    clock = Clock()
    clock.leases.renew(JOB)
    clock.now += 3_600_000
    assert clock.after(30) == []
    assert clock.after(1) == [JOB]


def test_a_clock_that_is_set_back_ends_nothing():
    clock = Clock()
    clock.leases.renew(JOB)
    clock.after(20)
    clock.now -= 3_600_000
    assert clock.after(30) == []
    assert clock.after(1) == [JOB]


def test_short_leases_are_looked_at_more_often():
    assert (beat_seconds(30_000), beat_seconds(1000)) == (1.0, 0.25)
