"""The tutorial of a pipeline and the recipes, block by block in one Python, as a reader types them."""

import ast
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from pyspark.sql import SparkSession

from .broker import TapBroker

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^\.\. code-block:: python\n\n((?: .*\n|\n)+)", re.MULTILINE)
ELSEWHERE = ("taps://", 'mode="queue"', "while True")
"""In blocks that need another broker, or end only by being stopped."""

pytestmark = pytest.mark.spark


def blocks(page: str, replaced: dict[str, str]) -> list[str]:
    """Return the code of a page, with places of the test's own."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for here, there in replaced.items():
        assert here in text
        text = text.replace(here, there)
    return [dedent(block) for block in BLOCK.findall(text)]


class Notebook:
    """What a reader has in front of them: blocks run in turn; an expression in the last line is the answer."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.answers: list[object] = []

    def run(self, block: str) -> None:
        *before, last = ast.parse(block).body
        if not isinstance(last, ast.Expr):
            exec(block, self.names)
            return
        exec(compile(ast.Module(before, []), "page", "exec"), self.names)
        self.answers.append(eval(compile(ast.Expression(last.value), "page", "eval"), self.names))


def test_tutorial_does_what_it_says(spark: SparkSession, own_tap_broker: TapBroker, tmp_path: Path) -> None:
    replaced = {
        "127.0.0.1:47280": own_tap_broker.address,
        "amqp://guest:guest@127.0.0.1:5672": own_tap_broker.amqp_url,
        "/tmp/": f"{tmp_path}/",
    }
    notebook = Notebook()
    for block in blocks("tutorial/pipeline.rst", replaced):
        notebook.run(block)
    counts = [answer for answer in notebook.answers if type(answer) is int]
    assert counts[0] == 1000
    assert counts[1] < counts[2] < counts[3]
    assert notebook.answers[-2:] == [True, 2500]
    notebook.names["query"].stop()


def test_recipes_run_as_they_are_written(spark: SparkSession, own_tap_broker: TapBroker, tmp_path: Path) -> None:
    for stream in ("orders", "priced", "daily"):
        own_tap_broker.declare_stream(stream)
    own_tap_broker.append("orders", [b'{"product": "tea", "amount": %d}' % number for number in range(5)])
    (tmp_path / "password").write_text("guest\n")
    spark.createDataFrame([("tea", 3)], "product STRING, price INT").write.parquet(f"{tmp_path}/products")
    replaced = {
        "127.0.0.1:47280": own_tap_broker.address,
        '"ada", "passwordFile": "/run/secrets/broker"': f'"guest", "passwordFile": "{tmp_path}/password"',
        "/data/": f"{tmp_path}/",
    }
    notebook = Notebook()
    for block in blocks("how-to/spark.rst", replaced):
        if not any(word in block for word in ELSEWHERE):
            notebook.run(block)
        if query := notebook.names.pop("query", None):
            query.processAllAvailable()
            query.stop()
    assert notebook.answers == [5, None]
    assert spark.read.parquet(f"{tmp_path}/orders").count() == 5
    assert len(own_tap_broker.values("daily")) == 10  # of a batch, and of foreachBatch
    assert spark.read.parquet(f"{tmp_path}/tea/0").count() == 5
    assert own_tap_broker.values("priced")[4] == b'{"product":"tea","amount":4,"price":3}'
