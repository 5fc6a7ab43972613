"""Queries as they travel: `types` are those of IQv2 with Kafka's names, `requests` the bodies of
requests and answers, `parameters` and `timed_parameters` what a GET may say.
"""
