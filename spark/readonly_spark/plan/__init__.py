"""Planning on the driver: from options and offsets to the tasks of a micro-batch.

planner          the steps of a plan
catalog          queries to the cluster: topics, ledgers, readable ends
schema_registry  schemas of topics
transactions     committed and aborted transactions of topics
topic_state      the readable ledgers of a topic; pure
admission        how much a micro-batch takes of each topic; pure
splits           entry ranges of each task; pure
"""
