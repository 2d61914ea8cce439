"""The eMQP client for Trio; loads pyzmq when it connects."""
