"""Jobs on the broker's side, whatever wire they come over: the book of a domain, and what it knows of each."""

from triomq.endpoints.jobs.book import JobBook
from triomq.endpoints.jobs.endings import Endings
from triomq.endpoints.jobs.followers import Follower, Followers
from triomq.endpoints.jobs.hold import Held, Hold
from triomq.endpoints.jobs.job import BookedJob, End, JobSender, Runner, Stage
from triomq.endpoints.jobs.records import JobRecord, NoRecords, Records
from triomq.endpoints.jobs.results import Result, ResultBook, ResultStatistics
from triomq.endpoints.jobs.terms import FIRST_PAUSE, LONGEST_PAUSE, PLAIN, Terms
from triomq.endpoints.jobs.verdicts import REQUEUED, Fate, JobSummary, Standing

__all__ = [
    "FIRST_PAUSE",
    "LONGEST_PAUSE",
    "PLAIN",
    "REQUEUED",
    "BookedJob",
    "End",
    "Endings",
    "Fate",
    "Follower",
    "Followers",
    "Held",
    "Hold",
    "JobBook",
    "JobRecord",
    "JobSender",
    "JobSummary",
    "NoRecords",
    "Records",
    "Result",
    "ResultBook",
    "ResultStatistics",
    "Runner",
    "Stage",
    "Standing",
    "Terms",
]
