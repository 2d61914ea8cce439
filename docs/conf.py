"""How the documentation is built: ``sphinx-build -W -n docs docs/_build``, with no network."""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from triomq import __version__  # noqa: E402  (the path comes first)

project = "triomq"
author = "the triomq contributors"
copyright = "the triomq contributors"
release = version = __version__

# Each file in _ext is an extension of our own; most of them draw from the tables that the code obeys.
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    *sorted(path.stem for path in (HERE / "_ext").glob("*.py")),
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "triomq"

# Spark is large, and what the pages say of it is in our own docstrings.
autodoc_mock_imports = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # as they are written: a table by its name, not by what is in it
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": True}
toc_object_entries = False

# Every reference must resolve, but those that lead out of this project: following them would need the network.
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!triomq\.)\w+\..*")]
nitpick_ignore = [
    ("py:class", "triomq.endpoints.base.stream_listener.StreamAcceptor"),  # the half that knows no clients
    ("py:class", "T"),  # a type variable, shown without its module
    ("py:class", "triomq.errors._About"),  # where refusals about one sink or queue get their texts
    ("py:class", "triomq.actors.children.Parent"),  # the private half of Supervisor
    ("py:class", "triomq.actors.handling.Handling"),  # the half of Ref that turns call
    ("py:class", "triomq.security.verifiers.SaltedHash"),  # what is stored of a password; made by read_verifier
    ("py:class", "triomq.security.verifiers.ScramVerifier"),
    ("py:class", "triomq.core.queue.deadletter.Reason"),  # why a message becomes a dead letter
    ("py:class", "triomq.clients.dmp.link.DirectLink"),
    ("py:class", "triomq.clients.publish_window.PublishWindow"),  # the half of pipelines that knows no protocol
    ("py:class", "triomq.clients.settling.ClientDelivery"),  # the same of deliveries
    ("py:class", "triomq.clients.settling.Settling"),
    ("py:class", "triomq.clients.mtl.flow.ClientFlow"),  # what MTL's writers and readers have in common
    ("py:class", "Unaccepted"),  # what a subscription has of one connection, of triomq.clients.micromsg
    ("py:class", "Outstanding"),  # what a connection has under way, of triomq.clients.emqp
    ("py:class", "triomq.clients.emqp.pending.PendingCommand"),  # what requests have in common with commands
    ("py:class", "triomq.endpoints.base.job_desk.JobDesk"),
    ("py:class", "triomq.store.frames.ReadRecord"),
    ("py:class", "triomq.transports.memory.MemoryAddress"),
    ("py:class", "triomq.transports.poller.Poller"),
    ("py:class", "triomq.transports.stream.Transport"),
    ("py:class", "triomq.endpoints.direct.protocol.DirectProtocol"),
    ("py:class", "triomq.endpoints.direct.flow.FeedPace"),  # what direct feeds and peers leave with the broker
    ("py:class", "triomq.endpoints.base.context.Origins"),
    ("py:class", "triomq.endpoints.base.domain_work.DomainWork"),  # the half of Client that works in a domain
    ("py:class", "triomq.pipeline.worker_task.WorkerPlan"),  # what tasks of workers on Spark are given
    ("py:class", "triomq.store.frames.Read"),  # what goes over the wire
    ("py:class", "triomq.store.frames.ReadChunks"),
    ("py:class", "triomq.store.frames.SendChunks"),
    ("py:class", "triomq.store.frames.ReadDelayed"),
    ("py:class", "triomq.store.frames.ReadRecord"),
    *[  # what the client for Trio is made of
        ("py:class", f"triomq.clients.amqp.{name}")
        for name in ("consuming_methods.ConsumingMethods", "line.Line", "line.Owner", "topology.Topology")
    ],
]
