"""What each event does that is neither a message nor a worker's word of one, as a table."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from triomq.endpoints.emqp.administration import answer_question, stop_endpoint
from triomq.endpoints.emqp.jobs.relay import cancel_job, hand_on_progress, take_back
from triomq.endpoints.emqp.jobs.states import report_states
from triomq.endpoints.emqp.roles import subscribe, take_role, unsubscribe
from triomq.endpoints.emqp.scheduling import remove_schedule, set_schedule
from triomq.protocols.emqp import (
    AdminAsked,
    CancelAsked,
    DisconnectAsked,
    Informed,
    JobsReturned,
    Progressed,
    ScheduleRemoved,
    ScheduleSet,
    StatesAsked,
    Subscribed,
    Unsubscribed,
)

if TYPE_CHECKING:
    from triomq.endpoints.emqp.peer import EMQPPeer

HANDLERS: Final[Mapping[type, "Callable[[EMQPPeer, Any], None]"]] = {
    Informed: take_role,
    Subscribed: subscribe,
    Unsubscribed: unsubscribe,
    ScheduleSet: set_schedule,
    ScheduleRemoved: remove_schedule,
    StatesAsked: report_states,
    Progressed: hand_on_progress,
    CancelAsked: cancel_job,
    JobsReturned: take_back,
    AdminAsked: answer_question,
    DisconnectAsked: stop_endpoint,
}
"""Event to handler; the rows pair each handler with the one type that it is written for. They may raise refusals."""
