"""Options of the sink that do not fit together."""

import pytest

from triomq.errors import ConfigError
from triomq.pipeline.options import read_options
from triomq.pipeline.sink_options import SparkSinkOptions


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"topic": "a", "exchange": "b"}, "both of the options topic and exchange"),
        ({"topic": ""}, "option topic is empty"),
        ({"topic": "a", "routingKey": "b"}, "option routingKey without exchange"),
        ({"topic": "a", "batchNumber": "7"}, "option batchNumber without batchKey"),
        ({"topic": "a", "batchKey": "b", "batchNumber": "-1"}, "option batchNumber is '-1'"),
        ({"topik": "a"}, "did you mean topic"),
    ],
)
def test_options_that_do_not_fit_are_an_error(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read_options(SparkSinkOptions, {"address": "localhost", **given})
