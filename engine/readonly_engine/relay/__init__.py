"""Connections to the writable owners: what is forwarded there, under which ids, and how it survives an owner that moves."""
