"""The changelog of one partition: `entries` has its entries and their bytes, `log` the pure rules
by which it grows, becomes applicable, and is cut.
"""
