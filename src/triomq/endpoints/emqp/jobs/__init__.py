"""What eMQP's peers do for jobs of the book: those of clients and workers with our extensions."""
