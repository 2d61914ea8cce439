"""What of the core is on disk, and how it comes back after a restart."""
