"""Frames are laid out as section 4.2.3 says."""

import pamqp.frame
import pamqp.heartbeat

from triomq.protocols.amqp.frames import BODY, HEARTBEAT_FRAME, OVERHEAD, PROTOCOL_HEADER, frame


def test_frame_is_type_channel_size_payload_end() -> None:
    assert frame(3, 0x0102, b"abc") == b"\x03\x01\x02\x00\x00\x00\x03abc\xce"
    assert len(frame(3, 1, b"")) == OVERHEAD


def test_another_implementation_agrees() -> None:
    assert pamqp.frame.unmarshal(frame(BODY, 5, b"xyz"))[2].value == b"xyz"
    assert isinstance(pamqp.frame.unmarshal(HEARTBEAT_FRAME)[2], pamqp.heartbeat.Heartbeat)
    assert pamqp.frame.unmarshal(PROTOCOL_HEADER)[2].minor_version == 9
