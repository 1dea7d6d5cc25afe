"""Tables of random histories that are backed up, and whose copies go on in their place."""

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from test_random_maintenance import STEPS, RandomTable, options

from tests.effort import examples


class MovingTable(RandomTable):
    """A table that is backed up now and then, and goes on as what was restored of it."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.store = tempfile.mkdtemp()
        self.made: list[str] = []

    def back_up(self) -> str:
        name = f"b{len(self.made)}"
        backups = self.catalogs[0].backups(self.store)
        backups.create(name)
        assert backups.verify(name).is_whole
        self.made.append(name)
        return name

    def move(self) -> None:
        """Go on with a copy of the table, in another warehouse; the first one goes."""
        for key in list(self.sessions):
            self.sessions.pop(key).writer.close()
        self._sync_all()
        name = self.back_up()
        for catalog in self.catalogs:
            catalog.close()
        shutil.rmtree(self.folder)
        self.folder = tempfile.mkdtemp()
        self.root = Path(self.folder) / "db.db" / "t"
        self.catalogs = [self._connect() for _ in range(2)]
        self.catalogs[0].backups(self.store).restore(name)
        self.check(every=True)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.store, ignore_errors=True)


@settings(
    max_examples=examples(2),
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32 - 1), steps=STEPS)
def test_a_copy_takes_the_place_of_a_table(seed: int, steps: list[tuple[str, int]]) -> None:
    rng = random.Random(seed)
    table = MovingTable(options(rng))
    try:
        for first in range(0, len(steps), 8):
            table.run(steps[first : first + 8])
            if rng.random() < 0.5:
                table.line = table.main
                table.move()
            else:
                table.back_up()
        for name in table.made:
            assert table.catalogs[0].backups(table.store).verify(name).is_whole
    finally:
        table.close()
