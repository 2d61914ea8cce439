"""Other people's clients, their command line tools and one raw socket against a served broker."""
