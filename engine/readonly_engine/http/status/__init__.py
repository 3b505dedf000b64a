"""Status page of a broker: HTML that is made on the server, and the same figures as JSON."""
