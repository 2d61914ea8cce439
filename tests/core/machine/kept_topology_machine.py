"""What can happen to sinks and bindings in a broker with a store, beside what happens to queues."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from triomq.core import Bind, DeclareSink, DeleteSink, SinkOptions, Target, Unbind, make_binding

from .kept_machine import KeptMachine

SINKS = st.sampled_from(["s", "t"])
KEYS = st.sampled_from(["", "k"])


class KeptTopologyMachine(KeptMachine):
    """Sinks and bindings that come and go; what they lead to is another machine's business."""

    @rule(name=SINKS, durable=st.booleans())
    def delete_or_declare_sink(self, name: str, durable: bool) -> None:
        if name in self.topology.sinks:
            self.topology.forget_sink(name)
            self.turn(lambda: self.harness.domain.ask_nowait(DeleteSink(name, session=self.harness.session)))
            return
        options = SinkOptions(durable=durable, alternate="u")
        self.topology.sinks[name] = options
        self.turn(lambda: self.harness.domain.ask_nowait(DeclareSink(name, options)))

    @precondition(lambda self: self.topology.sinks)
    @rule(data=st.data(), key=KEYS, arguments=st.sampled_from([None, {"x": 1}]))
    def bind_or_unbind(self, data: st.DataObject, key: str, arguments: dict[str, object] | None) -> None:
        source = data.draw(st.sampled_from(sorted(self.topology.sinks)))
        ends = [(Target.SINK, name) for name in sorted(self.topology.sinks)]
        ends += [(Target.QUEUE, name) for name in sorted(self.topology.queues)] * 2
        target, name = data.draw(st.sampled_from(ends))
        binding, session = make_binding(source, target, name, key, arguments), self.harness.session
        if binding in self.topology.bindings:
            self.topology.bindings.discard(binding)
            self.turn(lambda: self.harness.domain.ask_nowait(Unbind(binding, session)))
        else:
            self.topology.bindings.add(binding)
            self.turn(lambda: self.harness.domain.ask_nowait(Bind(binding, session)))
