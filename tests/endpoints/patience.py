"""A deadline for each test of a module: one that waits for what never comes fails, and does not hang."""

from collections.abc import Awaitable, Callable

import pytest
import trio


def patient(seconds: float) -> object:
    """Return a fixture that gives each test of its module so many seconds."""

    def run(test: Callable[[], Awaitable[None]], **options: object) -> None:
        async def patiently() -> None:
            with trio.fail_after(seconds):
                await test()

        trio.run(patiently, **options)  # type: ignore[arg-type]

    @pytest.fixture(autouse=True)
    def patience(request: pytest.FixtureRequest) -> None:
        request.node.add_marker(pytest.mark.trio(run=run), append=False)

    return patience
