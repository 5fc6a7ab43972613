"""Writers of stores: plain writers, drivers, and Spark jobs."""
