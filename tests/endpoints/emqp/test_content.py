"""What the broker writes before the payload of a job."""

from hypothesis import given
from hypothesis import strategies as st

from triomq.endpoints.emqp.content import PREFIXES, RequestOrigins, RequestProperties, encode_request, split_request
from triomq.protocols.emqp import Extension, encode_extension

ids = st.binary(max_size=255)

properties = st.builds(
    RequestProperties,
    ids,
    st.sampled_from([b"", b"guarantee,timeout:5", b"reply-requested"]),
    st.binary(max_size=300),
    st.text(max_size=300),
    st.sampled_from([b"", encode_extension(Extension(key="k"))]),
    st.binary(max_size=70_000),
)


@given(properties=properties, other=ids)
def test_properties_of_another_job_differ_in_the_id_alone(properties: RequestProperties, other: bytes) -> None:
    msgid, suffix = split_request(encode_request(properties))
    assert msgid == properties.msgid
    changed = RequestProperties(
        other, properties.headers, properties.identity, properties.user, properties.extension, properties.added
    )
    assert PREFIXES[len(other)] + other + suffix == encode_request(changed)


@given(properties=properties)
def test_origin_is_the_same_for_all_jobs_that_came_alike(properties: RequestProperties) -> None:
    origins = RequestOrigins()
    suffix = split_request(encode_request(properties))[1]
    origin = origins.find(suffix)
    assert (origin.identity, origin.user) == (properties.identity, properties.user)
    assert origin.headers.timeout == (5 if b"timeout" in properties.headers else 0)
    assert origin.headers.replying().frame == origin.replying
    assert origin.extension_frame(2) == encode_extension(Extension(key=origin.extension.key, attempt=2))
    assert origins.find(suffix) is origin
