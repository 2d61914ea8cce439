"""All doors, by the names that they have in ``docs/topics/doors.toml``."""

from doors.amqp import AMQPWayIn, AMQPWayOut
from doors.dmp import DMPWayIn, DMPWayOut
from doors.door import WayIn, WayOut
from doors.emqp import EMQPWayIn, EMQPWayOut
from doors.mtl import MTLWayIn, MTLWayOut
from doors.program import ProgramWayIn, ProgramWayOut
from doors.restms import RestMSWayIn, RestMSWayOut

WAYS_IN: dict[str, type[WayIn]] = {
    "AMQP": AMQPWayIn,
    "DMP": DMPWayIn,
    "RestMS": RestMSWayIn,
    "MTL": MTLWayIn,
    "eMQP": EMQPWayIn,
    "program": ProgramWayIn,
}
WAYS_OUT: dict[str, type[WayOut]] = {
    "AMQP": AMQPWayOut,
    "DMP": DMPWayOut,
    "RestMS": RestMSWayOut,
    "MTL": MTLWayOut,
    "eMQP": EMQPWayOut,
    "program": ProgramWayOut,
}
