"""The rows of the table of answers, whose answers are known, put to both brokers all the same."""

from ...answers import table
from ..question import Asking, Group, Lines
from ..session import Session

GROUP = Group("row")


def asking(title: str) -> Asking:
    def ask(session: Session) -> Lines:
        row = table(session.q, session.e)[title]
        owner, peer = session.open(), session.open()
        owner.do(*row.owner)
        peer.do(*row.before)
        yield peer.ask(row.request)

    return ask


for _title in table("q", "e"):
    GROUP.add(_title, asking(_title))
