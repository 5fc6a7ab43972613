"""The PySparks that the package is for: the newest of each line of releases."""

VERSIONS = ("3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0")


def has_data_sources(version: str) -> bool:
    """Whether this PySpark takes data sources written in Python."""
    return int(version.partition(".")[0]) >= 4
