"""The class restms on the wire: six methods without answers, either way."""

import pytest

from protocols.amqp.test_direct import pair
from protocols.amqp.wire import exchange
from triomq.protocols.amqp import (
    BROKER_METHODS,
    INDIRECT_METHODS,
    METHODS,
    Method,
    Received,
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSJoinDelete,
    RestMSPipeCreate,
    RestMSPipeDelete,
)
from triomq.protocols.amqp.restms import RESTMS_METHODS

GOLDEN: dict[bytes, Method] = {
    b"\xf0\x3d\x00\x0a\x04fifo\x02P1": RestMSPipeCreate("fifo", "P1"),
    b"\xf0\x3d\x00\x14\x02P1": RestMSPipeDelete("P1"),
    b"\xf0\x3d\x00\x1e\x05topic\x02F1": RestMSFeedCreate("topic", "F1"),
    b"\xf0\x3d\x00\x28\x02F1": RestMSFeedDelete("F1"),
    b"\xf0\x3d\x00\x32\x02P1\x02F1\x03a.*": RestMSJoinCreate("P1", "F1", "a.*"),
    b"\xf0\x3d\x00\x3c\x02P1\x02F1\x03a.*": RestMSJoinDelete("P1", "F1", "a.*"),
}


@pytest.mark.parametrize("octets", GOLDEN)
def test_each_method_stands_on_the_wire_as_its_row_says(octets: bytes) -> None:
    assert BROKER_METHODS.encode(GOLDEN[octets]) == octets
    assert BROKER_METHODS.decode(octets) == GOLDEN[octets]
    assert INDIRECT_METHODS.decode(octets) == GOLDEN[octets]


def test_the_class_is_an_extension_without_answers() -> None:
    assert {row.class_id for row in RESTMS_METHODS} == {61501}
    assert 61501 not in {row.class_id for row in METHODS}
    assert not any(row.replies for row in RESTMS_METHODS)


def test_its_methods_go_either_way_on_a_channel() -> None:
    client, server = pair(BROKER_METHODS)
    for method in GOLDEN.values():
        client.send_method(1, method)
        server.send_method(1, method)
    found, events = exchange(client, server)
    assert found == events == [Received(1, method) for method in GOLDEN.values()]
