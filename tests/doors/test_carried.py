"""What of a message survives from each door to each other is what the table says; what is lost by it is not there."""

import pytest

from doors.carried import Outcome, Way, leads, outcome, read_doors
from doors.door import Said
from doors.said import ALSO_SAID, IN_OTHER_FORMS, SAID
from doors.site import open_site
from doors.ways import OTHER_WAYS_IN, OTHER_WAYS_OUT, WAYS_IN, WAYS_OUT

DOORS = read_doors()

_BODY = b'["run", {"path": "shop", "callable": "pack"}]'

PAIRS = [
    pytest.param(way_in, way_out, id=f"{way_in.name}-to-{way_out.name}")
    for way_in in DOORS.ways_in
    for way_out in DOORS.ways_out
    if leads(way_in, way_out)
]


@pytest.mark.parametrize(("way_in", "way_out"), PAIRS)
async def test_properties_survive_as_the_table_says(way_in: Way, way_out: Way) -> None:
    seen: list[Said] = []
    async with open_site() as site:
        consuming = {**WAYS_OUT, **OTHER_WAYS_OUT}[way_out.name](site)
        publishing = {**WAYS_IN, **OTHER_WAYS_IN}[way_in.name](site)
        async with consuming.open_queue(), publishing.open() as publish, consuming.open() as consumed:
            for said in (SAID, ALSO_SAID):
                await publish([_BODY], said)
                (message,) = await consumed.take(1)
                assert message.body == _BODY
                seen.append(message.read())
                message.accept()
    expected = {name: outcome(name, way_in, way_out) for name in DOORS.properties}
    assert {name: seen_as(name, seen, expected[name]) for name in DOORS.properties} == expected
    assert {name for said in seen for name in said} - {*DOORS.properties} <= {*way_in.adds, *way_out.adds}


def seen_as(name: str, seen: list[Said], expected: Outcome) -> Outcome:
    """Return what has become of a property, of which each message says something else."""
    values = [said.get(name) for said in seen]
    if is_same(values, [SAID[name], ALSO_SAID[name]]):
        return "kept"
    if values == [None, None]:
        return "own" if expected == "own" else "lost"  # what a door says itself may have no word at the other
    for form, said in IN_OTHER_FORMS.items():
        if is_same(values, [each.get(name) for each in said]):
            return "number" if form == "number" else "text"
    return "own"


def is_same(values: list[object], others: list[object]) -> bool:
    """Compare types as well: 1 is not true."""
    return values == others and [*map(type, values)] == [*map(type, others)]


def test_table_has_all_doors_and_says_how_each_settles() -> None:
    assert [way.name for way in DOORS.ways_in] == [*WAYS_IN, *OTHER_WAYS_IN]
    settling = {name: way.settles for name, way in {**WAYS_OUT, **OTHER_WAYS_OUT}.items()}
    assert {way.name: way.settles for way in DOORS.ways_out} == settling
    assert {way.name for way in (*DOORS.ways_in, *DOORS.ways_out) if not way.door} == {*WAYS_IN}
    assert {*DOORS.properties} == {*SAID} == {*ALSO_SAID}
