"""The parties of the contract: one of each kind that publishes, and of each kind that consumes."""

from endpoints import contract
from endpoints.contract import Consuming, Publishing
from endpoints.emqp.party import EMQPConsuming, EMQPPublishing
from endpoints.micromsg.party import MicroMsgConfirming, MicroMsgConsuming, MicroMsgPublishing
from endpoints.mtl.party import MTLConsuming, MTLPublishing
from endpoints.restms.party import RestMSConsuming, RestMSPublishing
from endpoints.tap.party import TapConsuming
from endpoints.toys.http_party import HTTPConsuming, HTTPPublishing
from endpoints.toys.router_party import RouterConsuming, RouterPublishing
from endpoints.websocket import (
    MicroMsgOverWebSocket,
    WebSocketConsuming,
    WebSocketDirectPublishing,
    WebSocketPublishing,
)

PUBLISHERS: dict[str, type[Publishing]] = {
    **contract.PUBLISHERS,
    "router toy": RouterPublishing,
    "http toy": HTTPPublishing,
    "emqp": EMQPPublishing,
    "mtl": MTLPublishing,
    "micromsg": MicroMsgPublishing,
    "micromsg with acks": MicroMsgConfirming,
    "restms": RestMSPublishing,
    "websocket": WebSocketPublishing,
    "dmp over websocket": WebSocketDirectPublishing,
}
CONSUMERS: dict[str, type[Consuming]] = {
    **contract.CONSUMERS,
    "router toy": RouterConsuming,
    "http toy": HTTPConsuming,
    "emqp": EMQPConsuming,
    "mtl": MTLConsuming,
    "micromsg": MicroMsgConsuming,
    "restms": RestMSConsuming,
    "websocket": WebSocketConsuming,
    "micromsg over websocket": MicroMsgOverWebSocket,
    "tap": TapConsuming,
}
