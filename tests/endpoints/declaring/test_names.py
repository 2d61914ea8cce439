"""Names of queues as clients give them, or do not."""

from triomq.endpoints.declaring import generated_name


def test_generated_names_differ_and_tell_where_they_come_from() -> None:
    names = {generated_name("amq.gen-") for _ in range(1000)}
    assert len(names) == 1000
    assert all(name.startswith("amq.gen-") and "=" not in name for name in names)
