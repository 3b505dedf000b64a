"""Entries to Arrow record batches, in Python and in C. Pure.

columns      the source's columns, and record batches of them
decode       entries to rows
builder      rows under construction: the interface, and the implementation in Python
native       the implementation in C (`_decode.c`)
chunks       large messages in several entries
"""
