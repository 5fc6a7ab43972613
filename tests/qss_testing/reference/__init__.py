"""References for the expected answers: simple models of stores, and Kafka's bytes.

`store_reference` models a whole store in plain dicts. It shares only the encodings of row keys with
the product. `store_scans` makes random questions with many rows, and `store_questions` asks a pod
each question in every way and compares the answers.

`versions` models a Versioned store, `own_stores` the indexes of custom types, `migrations` a
partition whose rows change their format, and `uncommitted_model` one with staged rows.

`plots` are the batches of a story with every state that follows, and `batch_story` runs a plot on a
pod and checks after each step which state readers see: every row of every state is known, so a
partly applied batch is noticed.

`kafka_vectors` has bytes that Kafka Streams made. `kafka_keys` and `kafka_versions` are layouts
of Kafka that stores do not use, as a second opinion on the layouts that they use.
"""
