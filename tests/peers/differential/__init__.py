"""The same questions to two brokers, and what they answer differently."""
