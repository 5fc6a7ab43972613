"""What writes into stores: plain writers, drivers, and jobs of Spark."""
