"""The properties of jobs: what is the same for all that are alike, and what each has for itself."""

from hypothesis import given
from hypothesis import strategies as st

from triomq.endpoints.emqp.jobs.content import (
    JOB_PREFIXES,
    JobOrigins,
    JobProperties,
    decode_job,
    encode_deadline,
    encode_job,
    from_job,
    split_job,
)

PROPERTIES = st.builds(
    JobProperties,
    st.binary(max_size=255),
    st.sampled_from([b"", b"guarantee,timeout:5"]),
    st.binary(max_size=20),
    st.text(max_size=20),
    st.sampled_from([b"", b'{"v":1,"key":"k","limit":2}']),
    begun=st.integers(0, 1 << 31),
    priority=st.integers(0, 9),
    deadline=st.floats(0, 1e12),
)


@given(PROPERTIES)
def test_properties_are_split_and_put_together_again(properties: JobProperties) -> None:
    encoded = encode_job(properties)
    job, alike, deadline = split_job(encoded)
    assert (job, deadline) == (properties.msgid, properties.deadline)
    assert JOB_PREFIXES[len(job)] + job + alike + encode_deadline(deadline) == encoded
    assert decode_job(encoded) == properties


def test_jobs_that_differ_in_id_and_deadline_have_one_origin() -> None:
    origins, found = JobOrigins(), []
    for number in (1, 2):
        properties = JobProperties(b"%d" % number, extension=b'{"v":1,"key":"k","limit":2}', deadline=float(number))
        job, alike, deadline = split_job(encode_job(properties))
        origin = origins.find(alike)
        found.append(origin)
        assert origin.entry(job, "q", deadline, durable=False).terms.deadline == number
    assert found[0] is found[1]
    assert b'"attempt":2' in found[0].frame(2, 0.0, 0.0)
    assert b'"deadline":1500' in found[0].frame(2, 3.0, 1.5)


def test_other_wires_see_a_priority_only_where_there_is_one() -> None:
    assert from_job(encode_job(JobProperties(b"1", priority=3))).priority == 3
    assert from_job(encode_job(JobProperties(b"1"))).priority is None
