"""Attacks on the loop through each door; each yields what it measures next, and what is measured ends with the next."""

from stallsides import amqp, emqp, http, micromsg, mtl, tap

ATTACKS = (*amqp.ATTACKS, *http.ATTACKS, *micromsg.ATTACKS, *emqp.ATTACKS, *mtl.ATTACKS, *tap.ATTACKS)
