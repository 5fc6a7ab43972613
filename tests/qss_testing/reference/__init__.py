"""References for the expected answers: Kafka's bytes, and simple models of stores."""
