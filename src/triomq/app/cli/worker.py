"""``triomq worker``: run the jobs of a program."""

import os
import sys
from typing import Annotated, Literal

import typer

from triomq.app.cli.output import announce, fail
from triomq.app.config import Log
from triomq.app.supervised import ParentProcess
from triomq.app.work import WorkSettings, run_worker
from triomq.errors import ConfigError
from triomq.jobs import Jobs
from triomq.jobs.worker import CONCURRENCY, DEFAULT_WEIGHT

DEFAULT_BROKER = "emqp://127.0.0.1:47291"


def worker(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:JOBS", help="The module and the name of its registry; `jobs` if left out.")
    ],
    queues: Annotated[
        str,
        typer.Option(
            metavar="NAME[:WEIGHT],…",
            help="Queues to serve, those with the highest weight first; by default those that the jobs name.",
        ),
    ] = "",
    concurrency: Annotated[int, typer.Option(help="Async jobs that run at a time.", min=1)] = CONCURRENCY,
    processes: Annotated[
        int | None,
        typer.Option(
            help="Processes for sync jobs, by default one for each core; 0 is for threads, which cannot be killed.",
            min=0,
        ),
    ] = None,
    broker: Annotated[
        str,
        typer.Option(
            envvar="TRIOMQ_BROKER",
            metavar="URL",
            help="emqp://host:port, emqp://user:password@host:port, or emqp://host:port?keys=FILE&server_key=FILE.",
        ),
    ] = DEFAULT_BROKER,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start anew when a source file changes; for development.")
    ] = False,
    pool: Annotated[
        Literal["spark"] | None, typer.Option(help="Have workers on the executors of a Spark, and not here.")
    ] = None,
    master: Annotated[
        str, typer.Option(metavar="URL", help="Of Spark: local[4], spark://host:7077; by default what is configured.")
    ] = "",
    workers: Annotated[
        int, typer.Option(help="How many of them; by default one in each slot of the executors.", min=0)
    ] = 0,
    supervised: Annotated[bool, typer.Option(hidden=True)] = False,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="The lowest level that is logged.")
    ] = "info",
    log_format: Annotated[Literal["text", "json"], typer.Option(help="Lines for people or for programs.")] = "text",
) -> None:
    """Run jobs until SIGTERM or Ctrl-C: the first lets those that have begun end, the second ends all at once."""
    sys.path.insert(0, os.getcwd())  # the program is here, and the command may be anywhere
    parent = ParentProcess() if supervised else None
    try:
        settings = WorkSettings(
            target=target,
            broker=broker,
            queues=parse_queues(queues),
            concurrency=concurrency,
            processes=(os.cpu_count() or 1) if processes is None else processes,
            reload=reload,
            log=Log(level=log_level, format=log_format),
        )
        if pool is None and (master or workers):
            raise ConfigError("--master and --workers are about Spark; add --pool spark")
        if pool is not None:
            from triomq.app.spark_pool import SparkSettings, run_spark_pool

            if reload:
                raise ConfigError("--reload is for a worker on this machine; executors keep the code that they have")
            code = run_spark_pool(SparkSettings(settings, master, workers, processes), started=_announce)
        else:
            code = run_worker(settings, started=parent.tell_ready if parent else _announce)
    except ConfigError as error:
        if parent:
            parent.tell_broken(error)
        fail(str(error))
    except (Exception, SystemExit) as error:  # of the user's module
        if parent:
            parent.tell_broken(error)
        raise
    raise typer.Exit(code)


def parse_queues(text: str) -> dict[str, int]:
    """Read ``a,b:40``.

    Raises:
        ConfigError: A name is empty or stands twice, or a weight is no number from 1 to 10,000.
    """
    queues: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, weight = part.rpartition(":") if ":" in part else (part, "", "")
        if not name or name in queues:
            raise ConfigError(f"--queues: found {part!r}, expected each queue once, such as mail,reports:40")
        if colon and not (weight.isdecimal() and 1 <= int(weight) <= 10_000):
            raise ConfigError(f"--queues: {name} has the weight {weight!r}, expected a whole number from 1 to 10000")
        queues[name] = int(weight) if colon else DEFAULT_WEIGHT
    return queues


def _announce(jobs: Jobs) -> None:
    names = ", ".join(sorted(jobs.definitions))
    announce(f"jobs: {names or 'none'}; queues: {', '.join(sorted(jobs.queues)) or 'none'}; stop it with Ctrl-C")
