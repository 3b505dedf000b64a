"""Pure checks: observations in, findings out. No socket, no clock, no file."""
