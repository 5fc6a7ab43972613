"""`qss demo`: the whole system on one machine, with real input and a verdict."""
