"""What is noted of calls while they run."""

from pkray.service.progress import LOOKUPS, CallProgress


def test_each_lookup_has_a_number_of_its_own_while_it_runs():
    progress = CallProgress()
    for number in range(2):
        with progress.at(LOOKUPS):
            ((noted, _),) = progress.sign(LOOKUPS)
        assert noted == number
    assert progress.sign(LOOKUPS) == ()


def test_a_lookup_does_not_hide_that_other_calls_hang():
    progress = CallProgress()
    before = progress.sign("hear")
    with progress.at(LOOKUPS):
        assert progress.sign("hear") == before
    assert progress.sign("hear") == before
