"""Who gets which entry: one pure dispatcher for each subscription type. What they need of the world comes in as arguments."""
