"""All doors, by the names that they have in ``docs/topics/doors.toml``."""

from doors.amqp import AMQPWayIn, AMQPWayOut
from doors.dmp import DMPWayIn, DMPWayOut
from doors.door import WayIn, WayOut
from doors.emqp import EMQPWayIn, EMQPWayOut, ReleasedWayOut
from doors.emqp_topics import PublishWayIn, SocketWayOut, SubscribeWayOut
from doors.micromsg import MicroMsgWayIn, MicroMsgWayOut
from doors.mtl import MTLWayIn, MTLWayOut
from doors.program import ProgramWayIn, ProgramWayOut
from doors.restms import RestMSWayIn, RestMSWayOut

WAYS_IN: dict[str, type[WayIn]] = {
    "AMQP": AMQPWayIn,
    "DMP": DMPWayIn,
    "RestMS": RestMSWayIn,
    "MTL": MTLWayIn,
    "MicroMsg2": MicroMsgWayIn,
    "eMQP": EMQPWayIn,
    "program": ProgramWayIn,
}
WAYS_OUT: dict[str, type[WayOut]] = {
    "AMQP": AMQPWayOut,
    "DMP": DMPWayOut,
    "RestMS": RestMSWayOut,
    "MTL": MTLWayOut,
    "MicroMsg2": MicroMsgWayOut,
    "eMQP": EMQPWayOut,
    "program": ProgramWayOut,
}

OTHER_WAYS_IN: dict[str, type[WayIn]] = {"eMQP PUBLISH": PublishWayIn}
OTHER_WAYS_OUT: dict[str, type[WayOut]] = {
    "eMQP 0.3": ReleasedWayOut,
    "eMQP SUBSCRIBE": SubscribeWayOut,
    "eMQP SUB": SocketWayOut,
}
"""Through doors that have one above."""
