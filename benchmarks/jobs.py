"""What jobs cost, whole: client, broker, workers and all that these have started; Celery and Dramatiq beside.

    python benchmarks/jobs.py [--peers ENVIRONMENT] [--only noop-5000 …] [--rounds 3]

Celery 5.7 and Dramatiq 2.2 take part where RabbitMQ is installed and `--peers` names an environment that has them; one
that is not there yet is made, with pip. They get RabbitMQ, each a node of its own, and each library has two workers of
four slots and takes up to 64 jobs ahead for each. What is sent, what jobs do and how they are counted is the same for
all (`jobsides/`); participants are measured in turn (A B C A B C …), so that other work on the machine meets all.

noop-5000, noop-50000   plain functions that do nothing, without results; ours in processes that can be killed. Ours
                        are sent by `.map()`, acknowledged, the others in a loop, without confirms
one-5000                ours in a loop too, where each `.send()` waits until the broker has the job
async-5000              coroutines, in the workers' own loops (Celery has no such thing)
nap-1000                plain functions that sleep for 10 ms
trip                    one job at a time: until it has run, and until its result is back (Dramatiq has no results here)
delayed                 the memory that 100,000 jobs take which begin in an hour (ours alone)
inside                  coroutines, with results, in one process with broker and client, without a socket (ours alone)
sure-5000               noop with confirms, late acks and a data directory: nothing may be lost

Processor time is what the operating system has counted, for all threads of client, broker, and workers with their
processes. Rates are from the first job that is sent to the last that has run.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jobsides.counting import counted
from loadgen import processes
from loadgen.brokers import free_port, open_rabbitmq, rabbitmq_script, stop

SIDES = Path(__file__).parent / "jobsides"
WORKERS = 2
SLOTS = 4
PACKAGES = ["celery==5.7.*", "dramatiq[rabbitmq]==2.2.*"]
START_DEADLINE = 60.0
STOP_DEADLINE = 15.0
RUN_DEADLINE = 300.0


class Participant(NamedTuple):
    """A library: its broker, the commands of its workers, the command of its client."""

    name: str
    python: str
    side: str
    open_broker: "Callable[[bool], contextlib.AbstractContextManager[OpenBroker]]"
    workers: Sequence[Sequence[str]]


class OpenBroker(NamedTuple):
    """A broker that runs: where clients and workers find it, and its process."""

    url: str
    pid: int


class Cost(NamedTuple):
    """What one measurement has shown; seconds of processor time for each job, by who had it."""

    rate: float
    sent_rate: float
    client: float
    broker: float
    workers: float
    resident: int

    @property
    def whole(self) -> float:
        return self.client + self.broker + self.workers


# Who takes part


def triomq(slots: int) -> Participant:
    python = sys.executable
    command = [
        python,
        "-m",
        "triomq",
        "worker",
        "jobsides.triomq_side:jobs",
        "--concurrency",
        str(slots),
        "--processes",
        str(slots),
    ]
    return Participant("triomq", python, "triomq_side", open_ours, [command] * WORKERS)


def celery(environment: Path, slots: int) -> Participant:
    python = str(environment / "bin" / "python")
    command = [python, "-m", "celery", "-A", "jobsides.celery_side", "-q", "worker", "-l", "error", "-c", str(slots)]
    workers = [[*command, "-n", f"worker{number}@%h"] for number in range(WORKERS)]
    return Participant("Celery", python, "celery_side", open_rabbit, workers)


def dramatiq(environment: Path, slots: int) -> Participant:
    python = str(environment / "bin" / "python")
    command = [python, "-m", "dramatiq", "jobsides.dramatiq_side", "--processes", str(WORKERS), "--threads", str(slots)]
    return Participant("Dramatiq", python, "dramatiq_side", open_rabbit, [command])


@contextlib.contextmanager
def open_ours(is_sure: bool) -> Iterator[OpenBroker]:
    """Run `triomq serve` with an endpoint for jobs."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="jobs-", ignore_cleanup_errors=True) as folder:
        config = Path(folder) / "triomq.toml"
        config.write_text(f'[[endpoints]]\ntype = "emqp"\nport = {port}\n[log]\nlevel = "error"\n')
        command = [sys.executable, "-m", "triomq", "serve", str(config)]
        if is_sure:
            command += ["--data", str(Path(folder) / "data")]
        process = start(command, {})
        try:
            wait(lambda: accepts(port), "the broker does not listen", process)
            yield OpenBroker(f"emqp://127.0.0.1:{port}", process.pid)
        finally:
            stop(process)


@contextlib.contextmanager
def open_rabbit(is_sure: bool) -> Iterator[OpenBroker]:
    """Run RabbitMQ; queues are durable there and messages persistent in any case."""
    with open_rabbitmq() as broker:
        assert broker.pid is not None
        yield OpenBroker(f"amqp://guest:guest@127.0.0.1:{broker.address.port}", broker.pid)


def find_peers(environment: Path | None, slots: int) -> list[Participant]:
    """Return the others, if there is what they need."""
    if environment is None or rabbitmq_script() is None:
        return []
    if not (environment / "bin" / "python").exists():
        print(f"installing {', '.join(PACKAGES)} in {environment}", file=sys.stderr)
        venv.create(environment, with_pip=True)
        subprocess.run([environment / "bin" / "pip", "install", "--quiet", *PACKAGES], check=True)
    return [celery(environment, slots), dramatiq(environment, slots)]


# Processes


def start(command: Sequence[str], settings: dict[str, str], *, talks: bool = False) -> "subprocess.Popen[str]":
    """Start a process of a group of its own; what it prints is of no interest."""
    environment = {**os.environ, **settings}
    pipe = subprocess.PIPE if talks else subprocess.DEVNULL
    errors = None if "JOBS_ERRORS" in os.environ else subprocess.DEVNULL
    return subprocess.Popen(
        command,
        env=environment,
        cwd=settings.get("PYTHONPATH"),
        text=True,
        start_new_session=True,
        stdin=pipe,
        stdout=pipe,
        stderr=errors,
    )


def end(process: "subprocess.Popen[str]") -> None:
    """Wait for a process that was asked to end; a second signal would be another question."""
    try:
        process.wait(STOP_DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def accepts(port: int) -> bool:
    """Return whether somebody listens."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def wait(
    condition: Callable[[], object], otherwise: str, *alive: "subprocess.Popen[str]", most: float = START_DEADLINE
) -> None:
    """Wait for what other processes do."""
    end = time.monotonic() + most
    while not condition():
        for process in alive:
            if process.poll() is not None:
                raise SystemExit(f"{otherwise}: a process has ended with {process.returncode}; JOBS_ERRORS=1 shows why")
        if time.monotonic() > end:
            raise SystemExit(otherwise)
        time.sleep(0.002)


class Running:
    """A participant whose processes run; made by ``running``."""

    def __init__(
        self, broker: OpenBroker, workers: "list[subprocess.Popen[str]]", client: "subprocess.Popen[str]", folder: Path
    ) -> None:
        self.broker = broker
        self.workers = workers
        self._client = client
        self._folder = folder

    def ask(self, *words: object) -> object:
        """Have the client do something; return what it says."""
        self.begin(*words)
        return self.answer()

    def begin(self, *words: object) -> None:
        assert self._client.stdin is not None
        self._client.stdin.write(" ".join(map(str, words)) + "\n")
        self._client.stdin.flush()

    def answer(self) -> object:
        assert self._client.stdout is not None
        line = self._client.stdout.readline()
        if not line:
            raise SystemExit("the client has ended; JOBS_ERRORS=1 shows why")
        return json.loads(line)

    def done(self) -> int:
        return counted(self._folder)

    def run(self, name: str, count: int, verb: str = "send", most: float = RUN_DEADLINE) -> tuple[float, float] | None:
        """Have jobs sent and done; return the seconds of both; None if this library has no such jobs."""
        before, began = self.done(), time.perf_counter()
        self.begin(verb, name, count)
        sent = self.answer()
        if sent is None:
            return None
        assert isinstance(sent, float)
        wait(lambda: self.done() - before >= count, f"{count} jobs are not done", *self.workers, most=most)
        return time.perf_counter() - began, sent

    def processor_seconds(self) -> tuple[float, float, float]:
        workers = [pid for worker in self.workers for pid in processes.tree_of(worker.pid)]
        broker = processes.tree_of(self.broker.pid)
        found = [processes.processor_seconds(pids) for pids in ([self._client.pid], broker, workers)]
        return found[0], found[1], found[2]

    def resident(self) -> int:
        pids = [self._client.pid, *processes.tree_of(self.broker.pid)]
        pids += [pid for worker in self.workers for pid in processes.tree_of(worker.pid)]
        return processes.resident_octets(pids)


@contextlib.contextmanager
def running(participant: Participant, *, is_sure: bool = False) -> Iterator[Running]:
    """Run broker, workers and client of a participant, until the first jobs have run."""
    with participant.open_broker(is_sure) as broker, tempfile.TemporaryDirectory() as scratch:
        counts = Path(scratch) / "counts"
        counts.mkdir()
        # A folder that has this package alone: `amqp.py` beside it would hide a library of Celery's.
        (Path(scratch) / SIDES.name).symlink_to(SIDES)
        settings = {
            "PYTHONPATH": scratch,
            "JOBS_BROKER": broker.url,
            "TRIOMQ_BROKER": broker.url,
            "JOBS_COUNTS": str(counts),
            "JOBS_KNOCK": f"{scratch}/knock",
            "JOBS_GUARANTEE": "1" if is_sure else "",
        }
        started: list[subprocess.Popen[str]] = []
        try:
            for command in participant.workers:
                started.append(start(command, settings))
            command = [participant.python, "-m", f"jobsides.{participant.side}"]
            client = start(command, settings, talks=True)
            started.append(client)
            assert client.stdout is not None
            if client.stdout.readline() != "ready\n":
                raise SystemExit(f"the client of {participant.name} has not begun; JOBS_ERRORS=1 shows why")
            found = Running(broker, started[:-1], client, counts)
            found.run("noop", 500, most=START_DEADLINE)  # connections, queues and children are there from then on
            yield found
        finally:
            for process in started:
                process.terminate()
            for process in started:
                end(process)


# What is measured


class Work(NamedTuple):
    """Jobs to be sent: their name on all sides, how many, and how."""

    name: str
    title: str
    job: str
    jobs: int
    verb: str = "send"
    is_sure: bool = False


WORKS = (
    Work("noop-5000", "5,000 jobs that do nothing", "noop", 5_000),
    Work("noop-50000", "50,000 of them", "noop", 50_000),
    Work("async-5000", "5,000 coroutines that do nothing", "async_noop", 5_000),
    Work("one-5000", "5,000 of them, one by one", "noop", 5_000, "one"),
    Work("nap-1000", "1,000 jobs that sleep for 10 ms", "nap", 1_000),
    Work("sure-5000", "5,000 jobs, nothing may be lost", "noop", 5_000, is_sure=True),
)
OTHERS = ("trip", "delayed", "inside")
TRIPS = (("trip", "until it has run"), ("call", "until its result is back"), ("await", "coroutine, its result"))


def measure(running: Running, work: Work) -> Cost | None:
    before = running.processor_seconds()
    seconds = running.run(work.job, work.jobs, work.verb)
    if seconds is None:
        return None
    client, broker, workers = (
        (after - then) / work.jobs for after, then in zip(running.processor_seconds(), before, strict=True)
    )
    whole, sent = seconds
    return Cost(work.jobs / whole, work.jobs / sent, client, broker, workers, running.resident())


def measure_all(
    participants: Sequence[Participant], works: Sequence[Work], rounds: int
) -> dict[tuple[str, str], list[Cost]]:
    """Measure everybody in turn; those that are not measured sleep meanwhile."""
    found: dict[tuple[str, str], list[Cost]] = {}
    for is_sure in (False, True):
        chosen = [work for work in works if work.is_sure is is_sure]
        if not chosen:
            continue
        with contextlib.ExitStack() as stack:
            runnings = [(one.name, stack.enter_context(running(one, is_sure=is_sure))) for one in participants]
            for work in chosen:
                for number in range(rounds):
                    for name, one in runnings:
                        print(f"{work.title}: {name}, round {number + 1} of {rounds}", file=sys.stderr)
                        cost = measure(one, work)
                        if cost is not None:
                            found.setdefault((work.name, name), []).append(cost)
    return found


def measure_trips(participants: Sequence[Participant], count: int) -> Iterator[tuple[str, str, list[float]]]:
    """Yield the milliseconds of single jobs, for each participant that can send them."""
    for participant in participants:
        with running(participant) as one:
            for verb, title in TRIPS:
                one.ask(verb, 20)
                print(f"{title}: {participant.name}", file=sys.stderr)
                taken = one.ask(verb, count)
                if isinstance(taken, list):
                    yield participant.name, title, taken


def measure_delayed(participant: Participant, count: int) -> tuple[int, float]:
    """Return how many bytes the broker has grown by, and how many jobs were sent in a second."""
    with running(participant) as one:
        broker = processes.tree_of(one.broker.pid)
        before = processes.resident_octets(broker)
        seconds = one.ask("delay", count)
        assert isinstance(seconds, float)
        time.sleep(1.0)
        return processes.resident_octets(broker) - before, count / seconds


def measure_inside(count: int, trips: int) -> tuple[float, float, list[float]]:
    """Return jobs in a second, processor seconds for each, and the milliseconds of single ones."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / SIDES.name).symlink_to(SIDES)
        command = [sys.executable, "-m", "jobsides.inside", str(count), str(trips)]
        environment = {**os.environ, "PYTHONPATH": scratch, "JOBS_COUNTS": scratch}
        done = subprocess.run(command, env=environment, cwd=scratch, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    return found["rate"], found["processor"], found["trips"]


# What is printed


def print_costs(found: dict[tuple[str, str], list[Cost]], works: Sequence[Work]) -> None:
    """Print the median of the rounds, in milliseconds of processor time."""
    titles = ("jobs/s", "sent/s", "CPU ms", "client", "broker", "workers", "MiB")
    print(f"{'':38}" + "".join(f"{title:>9}" for title in titles))
    for work in works:
        for (name, participant), costs in found.items():
            if name != work.name:
                continue
            rate, sent, client, broker, workers, resident = map(statistics.median, zip(*costs, strict=True))
            whole = statistics.median(cost.whole for cost in costs)
            times = "".join(f"{seconds * 1000:9.3f}" for seconds in (whole, client, broker, workers))
            print(f"{f'{work.title}: {participant}':38.38}{rate:9,.0f}{sent:9,.0f}{times}{resident / 2**20:9,.0f}")


def print_trips(title: str, taken: list[float]) -> None:
    """Print the median, and what one of a hundred exceeds."""
    quantiles = statistics.quantiles(taken, n=100)
    print(f"{title:50}p50 {quantiles[49]:6.2f} ms, p99 {quantiles[98]:6.2f} ms")


def main() -> None:
    """Print the tables."""
    names = [*(work.name for work in WORKS), *OTHERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slots", type=int, default=SLOTS, help="of each of the two workers (4)")
    parser.add_argument("--peers", type=Path, help="an environment with Celery and Dramatiq; made if it is not there")
    parser.add_argument("--no-triomq", action="store_true", help="measure the others alone")
    parser.add_argument("--smoke", action="store_true", help="few jobs, to see that it works")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing stays behind
    scale = 50 if options.smoke else 1
    works = [work._replace(jobs=work.jobs // scale) for work in WORKS if work.name in options.only]
    ours = [] if options.no_triomq else [triomq(options.slots)]
    participants = [*ours, *find_peers(options.peers, options.slots)]
    if not participants:
        parser.error("nobody takes part: leave out --no-triomq, or install RabbitMQ and name --peers")
    if works:
        print_costs(measure_all(participants, works, 1 if options.smoke else options.rounds), works)
    if "trip" in options.only:
        for name, title, taken in measure_trips(participants, 500 // scale):
            print_trips(f"one job, {title}: {name}", taken)
    if "inside" in options.only and ours:
        rate, processor, taken = measure_inside(20_000 // scale, 500 // scale)
        print(f"inside one process: {rate:,.0f} jobs/s with results, {processor * 1000:.3f} ms of CPU each")
        print_trips("one job inside, until its result is back", taken)
    if "delayed" in options.only and ours:
        count = 100_000 // scale
        size, rate = measure_delayed(ours[0], count)
        print(f"{count:,} delayed jobs: {size / 2**20:.0f} MiB, sent at {rate:,.0f}/s")


if __name__ == "__main__":
    main()
