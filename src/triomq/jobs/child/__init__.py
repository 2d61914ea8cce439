"""What child processes of workers run: the tokens by which jobs come to them, and the program; no client, no socket."""
