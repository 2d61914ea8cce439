"""What every endpoint is made of: listening, connections, what they read and write, and how they end."""
