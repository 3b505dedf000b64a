"""Reading the entries of one Spark task, from bookies and tiered storage.

task_reader     the entries of a task as record batches
entry_source    selects the bookies or tiered storage for each ledger
bookie_client   sockets to bookies
fetch           which entries to request of which bookie, and when; pure
frame_buffers   reused receive buffers
rate_limit      bytes per second; pure
"""
