"""Options as Spark hands them over: lower-cased texts."""

import re

import pytest
from msgspec import structs

from triomq.errors import ConfigError
from triomq.pipeline.connecting import BrokerLink
from triomq.pipeline.foreign_options import FOREIGN_OPTIONS, ForeignOption
from triomq.pipeline.options import ConnectionOptions, read_options
from triomq.pipeline.sink_options import SparkSinkOptions
from triomq.pipeline.source_options import SparkSourceOptions, read_source_options


def read(**given: str) -> ConnectionOptions:
    return read_options(ConnectionOptions, {"address": "localhost", **given})


def test_options_are_found_whatever_case_their_names_have() -> None:
    assert read(retrybackoffms="5").retry_backoff_ms == 5
    assert read(RetryBackoffMs="5").retry_backoff_ms == 5
    assert read_options(ConnectionOptions, {"address": "h", "tls": "true", "tls.ca": "/ca.pem"}).tls_ca == "/ca.pem"


def test_an_option_that_is_not_known_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(
        ConfigError, match=r"'retrybackofms' is not known; did you mean retryBackoffMs\? There are addr"
    ):
        read(retrybackofms="5")
    with pytest.raises(ConfigError, match=r"'zzz' is not known; there are address, connectTimeout"):
        read(zzz="5")


def test_options_of_spark_itself_are_passed_over() -> None:
    given = {"address": "localhost", "checkpointlocation": "/tmp"}
    assert read_options(ConnectionOptions, given, besides=["checkpointLocation"]).address == "localhost"


def test_a_value_of_another_type_is_an_error_that_shows_it() -> None:
    with pytest.raises(ConfigError, match="option retries is 'many'; it is a whole number from 0 on"):
        read(retries="many")
    with pytest.raises(ConfigError, match="option tls is 'perhaps'; it is true or false"):
        read(tls="perhaps")
    with pytest.raises(ConfigError, match="option retries is '-1'; it is a whole number from 0 on"):
        read(retries="-1")


def test_secrets_are_in_no_representation() -> None:
    assert "sesame" not in repr(read(user="ada", password="sesame"))
    found = read_source_options({"url": "tap://ada:sesame@localhost", "subscribe": "orders"})
    assert "sesame" not in repr(found)
    assert repr(found).startswith("SparkSourceOptions(address='', user='guest', ")


def test_a_place_is_named_once() -> None:
    with pytest.raises(ConfigError, match="neither of the options url and address"):
        read_options(ConnectionOptions, {})
    with pytest.raises(ConfigError, match="both of the options url and address"):
        read(url="tap://localhost")
    with pytest.raises(ConfigError, match="the options url and user; a url has that in itself"):
        read_options(ConnectionOptions, {"url": "tap://localhost", "user": "ada"})
    with pytest.raises(ConfigError, match="the options password and passwordFile"):
        read(password="a", passwordfile="/b")


SECRETS = (
    "tap://ada:sesame@host",
    "ada:sesame@host:1",
    "sesame@host",
    'ScramLoginModule required username="ada" password="sesame";',
    '{"password": "sesame"}',
    '{"orders": {"0": "password=sesame"}}',
    "password=sesame",
)


@pytest.mark.parametrize("kind", [SparkSourceOptions, SparkSinkOptions])
def test_no_option_shows_a_secret_whatever_stands_in_it(kind: type[ConnectionOptions]) -> None:
    names = [field.encode_name for field in structs.fields(kind)]
    names += ["passwrd", "kafka.sasl.jaas.config", "sasl.password", "token", *SECRETS]
    for name in names:
        for value in (
            *SECRETS,
            *(["ada:sesame"] if name in ("url", "address") else []),
            *(["sesame"] if "assw" in name or name == "url" else []),
        ):
            given = {"address": "h:1", "subscribe" if kind is SparkSourceOptions else "topic": "k", "tls": "true"}
            given |= {"url": "", "address": value} if name == "address" else {name: value}
            if name == "url":
                del given["address"], given["tls"]
            try:
                found = read_options(kind, given)
                text = repr(found)
                BrokerLink(found)
            except ConfigError as error:
                text = str(error)
            assert "sesame" not in text, (name, value)


@pytest.mark.parametrize("address", ["ada:sesame@host:1", "h,ada:sesame@h", "tap://ada:sesame@h"])
def test_address_with_a_password_is_refused_before_spark_makes_a_plan_that_shows_it(address: str) -> None:
    with pytest.raises(ConfigError, match=r"option address has .*; it is host:port, or several with commas between"):
        read(address=address)


def test_address_names_the_comma() -> None:
    with pytest.raises(ConfigError, match=r"option address has 'h:1;h:2'; it is host:port, or several with commas"):
        read(address="h:1;h:2")
    for address in ("h", "h:1, h:2", "[::1]:47280", "10.0.0.1:1", " a.b:1 "):
        read(address=address)
    with pytest.raises(ConfigError, match="option address has 'h:70000'"):
        read(address="h:70000")


def source(**given: str) -> SparkSourceOptions:
    return read_source_options({"address": "h:1", "subscribe": "k", **given})


def test_values_are_taken_as_kafkas_source_takes_them() -> None:
    assert source(startingOffsets=" EARLIEST ").starting() == "earliest"
    assert source(endingOffsets="Latest").ending() == "latest"
    assert source(startingOffsets='{"k": {"0": "5", "1": -1}}').starting() == {"k": {0: 5, 1: -1}}
    assert source(startingTimestamp=" 1000 ", maxOffsetsPerTrigger="+10").starting_timestamp == 1000
    assert source(failOnDataLoss=" FALSE").fail_on_data_loss is False
    assert source(mode="QUEUE", group="g").mode == "queue"
    assert source(subscribe=" a , b ").names() == {"a": None, "b": None}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"startingTimestamp": "2026-01-01"}, "it is milliseconds since 1970 as a whole number, 1767225600000 for"),
        ({"maxBytesPerTrigger": "32m"}, "it is bytes as a whole number, without a unit: 33554432 is 32 MiB"),
        ({"maxOffsetsPerTrigger": "1e3"}, "it is a whole number from 1 on"),
        ({"maxOffsetsPerTrigger": "1_000"}, "it is a whole number from 1 on"),
        ({"minPartitions": "0"}, "option minPartitions is '0'; it is a whole number from 1 on"),
        ({"startingTimestamp": "9" * 30}, "it is milliseconds since 1970"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss is 'no'; it is true or false"),
        ({"retryBackoffMs": "1s"}, "it is milliseconds as a whole number, without a unit"),
        ({"connectTimeout": "nan"}, "it is seconds as a number above 0"),
        ({"mode": "topic"}, "option mode is 'topic'; it is stream or queue"),
        ({"endingOffsets": "earliest"}, "option endingOffsets is 'earliest'; it is latest, or offsets by stream and"),
        (
            {"startingOffsets": "first"},
            "option startingOffsets is 'first'; it is earliest, latest, or offsets by stream",
        ),
        (
            {"startingOffsets": '{"k": 5}'},
            "option startingOffsets has 5 for 'k'; it is earliest, latest, or offsets by",
        ),
        ({"startingOffsets": '{"k": {"0": "x"}}'}, "option startingOffsets has 'x' for k/0; that is no place in a"),
        ({"startingOffsets": '{"k": {"0": 1.5}}'}, "option startingOffsets has 1.5 for k/0; that is no place in a"),
        ({"endingOffsets": '{"k": {"0": -2}}'}, "option endingOffsets has -2 for k/0; that is no place in a stream"),
        ({"startingOffsets": '{"k": {"x": 1}}'}, "option startingOffsets has partition 'x' of 'k'; they count from 0"),
        ({"subscribe": "", "assign": '{"k": 5}'}, "option assign has 5 for 'k'; it is partitions by stream, as JSON"),
        ({"subscribe": "", "assign": '{"k": ["x"]}'}, "option assign has partition 'x' of 'k'; they count from 0"),
        ({"subscribe": "", "assign": "k"}, "option assign is 'k'; it is partitions by stream, as JSON"),
    ],
)
def test_errors_are_for_who_writes_sql(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        source(**given)
    assert text in str(caught.value)
    assert not re.search("Expected|null|int[^o]|str[^e]|malformed", str(caught.value))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("minOffsetsPerTrigger", r"does not exist; trigger\(processingTime=…\) makes larger batches"),
        ("maxRecordsPerTrigger", "here it is maxOffsetsPerTrigger, in records"),
        ("maxFilesPerTrigger", "here it is maxOffsetsPerTrigger, in records"),
        ("kafka.bootstrap.servers", "here it is address, which is host:port too"),
        ("kafka.group.id", "here it is group, "),
        ("groupIdPrefix", "here it is group, "),
        ("kafka.sasl.jaas.config", "here it is user, with password or passwordFile"),
        ("KAFKA.ANYTHING", "does not exist: it is a setting of Kafka's own clients"),
        ("maxBytePerTrigger", r"did you mean maxBytesPerTrigger\?"),
        ("adress", r"did you mean address\?"),
        ("passwrd", r"did you mean password\?"),
        ("minRecordsPerPartition", "is not known; there are address"),
        ("maxPartitions", "is not known; there are address"),
        ("maxRowsPerTrigger", "is not known; there are address"),
    ],
)
def test_hint_comes_from_the_words_of_other_sources_and_then_from_letters(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        source(**{name.lower(): "5"})


def test_sink_has_hints_of_its_own() -> None:
    for name, text in {
        "includeHeaders": "does not exist: a column headers is written whenever it is there",
        "subscribe": "here it is topic",
        "failOnDataLoss": "it is an option of the source",
        "kafka.acks": "does not exist: what is written is confirmed",
        "queueName": "here it is topic",
        "kafka.bootstrap.servers": "here it is address",
    }.items():
        with pytest.raises(ConfigError, match=text):
            read_options(SparkSinkOptions, {"address": "h", name.lower(): "true"})


@pytest.mark.parametrize("row", FOREIGN_OPTIONS, ids=lambda row: row.names[0])
def test_row_of_the_table_of_other_sources_options_does_what_it_says(row: ForeignOption) -> None:
    names = {
        kind: {field.encode_name for field in structs.fields(kind)} for kind in (SparkSourceOptions, SparkSinkOptions)
    }
    kind = (
        SparkSinkOptions if row.group == "sink" or not {*row.use} <= names[SparkSourceOptions] else SparkSourceOptions
    )
    given = {"address": "h:1", "subscribe" if kind is SparkSourceOptions else "exchange": "k"}
    assert {*row.use} <= names[kind]
    for name in row.names:
        name += "anything" if name.endswith(".") else ""
        if row.is_same:
            if name in ("subscribe", "subscribePattern", "assign"):
                given.pop("subscribe", None)
            if name == "topic":
                del given["exchange"]
            found = read_options(kind, {**given, name.lower(): row.wants})
            (field,) = (field for field in structs.fields(kind) if field.encode_name == name)
            assert getattr(found, field.name) != field.default or row.wants == str(field.default).lower()
        else:
            with pytest.raises(ConfigError, match=re.escape(row.answer.replace("``", ""))):
                read_options(kind, {**given, name.lower(): "5"})


def test_table_has_every_option_that_kafkas_source_and_sink_document() -> None:
    # Spark 4.1, Structured Streaming + Kafka Integration Guide, and the options that its source has besides.
    documented = """
        assign subscribe subscribePattern kafka.bootstrap.servers startingTimestamp startingOffsetsByTimestamp
        startingOffsets endingTimestamp endingOffsetsByTimestamp endingOffsets failOnDataLoss
        kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs maxOffsetsPerTrigger
        minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition groupIdPrefix kafka.group.id
        includeHeaders startingOffsetsByTimestampStrategy topic kafka.partitioner.class kafka.auto.offset.reset
        spark.kafka.consumer.cache. spark.kafka.consumer.fetchedData.cache. spark.kafka.producer.cache.
        spark.kafka.clusters. spark.security.credentials.kafka.enabled
    """
    assert {*documented.split()} <= {name for row in FOREIGN_OPTIONS for name in row.names}
