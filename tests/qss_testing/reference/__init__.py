"""What the right answer is: Kafka's bytes, and dumb models of stores."""
