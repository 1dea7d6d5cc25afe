"""pkray and Paimon's Java core take a table back to each other's tags."""

from typing import Any

import pytest


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("tagger", ["java", "pkray"])
@pytest.mark.parametrize("writer", ["java", "pkray"])
def test_rolling_back_to_a_tag_of_the_other(
    make: Any, writer: str, tagger: str, expired: bool
) -> None:
    other = "pkray" if tagger == "java" else "java"
    both = make({"k": "INT", "v": "INT"}, ["k"], options={"changelog-producer": "input"})
    for turn in range(3):
        both.write(writer, [["+I", 0, turn], ["+I", turn, turn]])
    tagged = both.content("java", snapshot=2)
    both.tag(tagger, "t", 2)
    if expired:
        both.table.expire_snapshots(retain_max=1)
    both.roll_back(other, "t")
    assert both.check() == tagged
    assert both.content("pkray", tag="t") == tagged
    for turn, who in enumerate((other, tagger)):
        both.write(who, [["+I", 5 + turn, turn]], full_compact=True)
    assert len(both.check()) == len(tagged) + 2
