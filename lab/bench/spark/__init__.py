"""`make -C lab bench-spark`: reads of topics by Spark, through this project's source and through others, by turns."""
