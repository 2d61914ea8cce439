"""Direct connections (6/DMP) for programs on Trio."""
