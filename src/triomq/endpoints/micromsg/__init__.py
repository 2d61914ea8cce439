"""MicroMsg2: the endpoint, its queues and topics, and how its properties look to other wires."""
