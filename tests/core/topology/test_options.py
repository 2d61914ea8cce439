import pytest

from triomq.core import Inequivalent, Overflow, QueueOptions, SinkKind, SinkOptions
from triomq.core.topology.options import require_equivalent


@pytest.mark.parametrize(
    ("options", "bounded"),
    [
        (QueueOptions(), False),
        (QueueOptions(max_length=0), True),
        (QueueOptions(max_bytes=1), True),
        (QueueOptions(overflow=Overflow.REJECT_PUBLISH), False),
    ],
)
def test_queue_is_bounded_when_it_has_a_limit(options: QueueOptions, bounded: bool) -> None:
    assert options.is_bounded is bounded


def test_equal_options_are_equivalent() -> None:
    require_equivalent("q", QueueOptions(max_length=1), QueueOptions(max_length=1))
    require_equivalent("q", QueueOptions(notes=(("a", 1),)), QueueOptions(notes=(("a", 1),)))


def test_remarks_may_differ() -> None:
    require_equivalent("s", SinkOptions(remarks=(("a", 1),)), SinkOptions(remarks=(("a", 2),)))


def test_first_option_that_differs_is_named() -> None:
    with pytest.raises(Inequivalent) as caught:
        require_equivalent("s", SinkOptions(internal=True, durable=False), SinkOptions(kind=SinkKind.DIRECT))
    error = caught.value
    assert (error.name, error.option, error.received, error.current) == ("s", "durable", False, True)
    assert str(error) == "durable of 's' is True, not False; declare it the same, or delete it first"
