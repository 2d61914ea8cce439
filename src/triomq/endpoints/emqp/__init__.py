"""eMQP: clients, workers and schedulers on one ROUTER."""
