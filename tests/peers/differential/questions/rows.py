"""The rows of the table of answers, whose answers are known, put to both brokers all the same."""

from ...answers import table
from ..question import Asking, Group, Lines
from ..talk import Talk

GROUP = Group("row")


def asking(title: str) -> Asking:
    def ask(talk: Talk) -> Lines:
        row = table(talk.q, talk.e)[title]
        owner, peer = talk.open(), talk.open()
        owner.do(*row.owner)
        peer.do(*row.before)
        yield peer.ask(row.request)

    return ask


for _title in table("q", "e"):
    GROUP.add(_title, asking(_title))
