"""What a broker lends to its endpoints."""

from triomq.app import open_broker


async def test_context_lends_domains_users_and_codecs() -> None:
    async with open_broker(users={"ada": "secret"}) as broker:
        await broker.declare_queue("q")
        assert broker.context.domains["default"].directory.queues.keys() == {"q"}
        assert broker.context.users.check("ada", b"secret")
