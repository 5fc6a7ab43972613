"""`qss demo`: runs the whole system on one machine with real input, and checks the result."""
