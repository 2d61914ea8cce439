"""What any endpoint is to a broker."""

import msgspec

from triomq.actors import DynamicSupervisor
from triomq.app import open_broker
from triomq.endpoints import DomainAccess, EndpointConfig, House


class Listener(DynamicSupervisor):
    """An endpoint for a protocol that nobody has heard of."""

    def __init__(self, house: House) -> None:
        super().__init__()
        self.house = house


class Config(msgspec.Struct, frozen=True):
    name: str = "unheard-of"

    def bound_to(self, port: int) -> EndpointConfig:
        return self

    def make(self, house: House) -> Listener:
        return Listener(house)


async def test_the_house_lends_its_domains_users_and_codecs() -> None:
    async with open_broker(users={"ada": "secret"}) as broker:
        await broker.declare_queue("q")
        house = broker.house
        listener = Config().make(house)
        assert listener.house.domains["default"].directory.queues.keys() == {"q"}
        assert listener.house.users.check("ada", b"secret")
