"""Local cursors at the source cluster: whether its policies allow them, and their removal with a pool or binding."""
