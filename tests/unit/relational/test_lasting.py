from pkray.relational.lasting import close_lasting, lasting


class Runtime:
    pass


class Work:
    def __init__(self):
        self.is_closed = False

    def close(self):
        self.is_closed = True


class OtherWork(Work):
    pass


def test_a_runtime_has_one_of_each_kind():
    runtime = Runtime()
    assert lasting(runtime, Work) is lasting(runtime, Work)
    assert lasting(runtime, Work) is not lasting(runtime, OtherWork)
    assert lasting(runtime, Work) is not lasting(Runtime(), Work)


def test_what_lasts_is_closed_with_its_runtime_and_made_anew_after_it():
    runtime, other = Runtime(), Runtime()
    first, kept = lasting(runtime, Work), lasting(other, Work)
    close_lasting(runtime)
    assert first.is_closed
    assert not kept.is_closed
    assert lasting(runtime, Work) is not first


def test_a_runtime_for_which_nothing_runs_closes_nothing():
    close_lasting(Runtime())
