"""State of a broker for people: its shape, its form as JSON, and its words. Pure."""
