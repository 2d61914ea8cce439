"""Generated input against what must hold for any; ``python -m tests.fuzz.amqp_engine`` runs for as long as told."""
