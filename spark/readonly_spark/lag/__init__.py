"""How far a query is behind its topics.

topic_lag  the lag of one topic; pure
meter      measures it on the cluster
metrics    Prometheus metrics of it
listener   measures it for streaming queries of a Spark session; only this module imports Spark
"""
