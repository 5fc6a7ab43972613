"""Java for Spark: `runtime` finds one that Spark can run on, `jvm_cds` says where the archive of
Spark's classes is.
"""
