"""The books of what is declared in a broker with a store, and of what of it must outlive a crash."""

from triomq.core import Binding, Directory, QueueOptions, SinkOptions, Target

Picture = tuple[dict[str, SinkOptions], dict[str, QueueOptions], set[Binding]]


class Topology:
    """Sinks, queues and bindings by name."""

    def __init__(self, picture: Picture | None = None) -> None:
        sinks, queues, bindings = picture or ({}, {}, set())
        self.sinks, self.queues, self.bindings = dict(sinks), dict(queues), set(bindings)

    def forget_sink(self, name: str) -> None:
        del self.sinks[name]
        self._unbind(Target.SINK, name)
        self.bindings = {each for each in self.bindings if each.source != name}

    def forget_queue(self, name: str) -> None:
        del self.queues[name]
        self._unbind(Target.QUEUE, name)

    def _unbind(self, target: Target, name: str) -> None:
        self.bindings = {each for each in self.bindings if (each.target, each.destination) != (target, name)}

    def _is_recorded(self, binding: Binding) -> bool:
        ends = self.queues if binding.target is Target.QUEUE else self.sinks
        return self.sinks[binding.source].durable and ends[binding.destination].durable

    def picture(self) -> Picture:
        """Give what must be there after a crash."""
        return (
            {name: options for name, options in self.sinks.items() if options.durable},
            {name: options for name, options in self.queues.items() if options.durable},
            {binding for binding in self.bindings if self._is_recorded(binding)},
        )

    def check(self, directory: Directory) -> None:
        """See that all of it is there, and nothing else."""
        assert {name: sink.declared for name, sink in directory.sinks.items()} == self.sinks
        assert {name: queue.declared for name, queue in directory.queues.items()} == self.queues
        found = [binding for sink in directory.sinks.values() for binding in sink.bindings]
        assert len(found) == len(self.bindings)
        assert set(found) == self.bindings
        ends = [sink.bound for sink in directory.sinks.values()] + [queue.bound for queue in directory.queues.values()]
        assert {binding for bound in ends for binding in bound or ()} == self.bindings
