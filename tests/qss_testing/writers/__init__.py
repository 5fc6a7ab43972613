"""Writers of stores: by the protocol, by the client, and by Spark.

Without Spark: `writer` writes batches into a running store by the client's own exchanges: take it
to fill a store of processes. `process_writer` writes a row into every partition, in the background
if a gate holds its requests. `model_writer` writes into one pod, and repeats each of its batches in
the reference. `exchange_steps` runs an exchange of the client by hand, step by step, without a pod:
the test plays the store. `copied_learner` writes so much that a pod has to copy the database of
its active.

With Spark: `streams` writes the input of a stream as files, one for each batch. `word_counts` is a
stateful Spark job as a program of its own, which tests kill and start again. `job_programs` runs
the shipped jobs in one process, so that they share a Java.

`spark_workers`, started by the script `spark_python`, forks Spark's Python workers from a process
with all imports done. A worker that Spark's own daemon starts takes a second of CPU for its
imports.
"""
