"""Tries the sink and the data source with each PySpark that they are for (`make compat`).

1. `environments` makes an environment for a PySpark in `.compat`: what the package wants, at the
   versions of `requirements.lock`, but for PySpark itself. A PySpark comes as sources of 400 MB, so
   one environment exists at a time, and none stays.
2. `__main__` starts the pods of a store for each PySpark, and runs `job` in its environment: a
   process of its own, which has this project's code and none of its tests' libraries.
3. `job` writes batches of a stream by the driver and by the executors, kills no one, and begins the
   query again. With a PySpark that has data sources it also writes and reads a DataFrame, and
   filters it. It prints what it saw as a line of JSON.
4. `__main__` compares that line and the store with what they must be, prints a line for each
   PySpark, and ends with exit code 1 if one of them failed.

`client` does less on more Pythons (`make compat-client`): it installs the wheel without extras, and
reads a store by both clients.

PySpark 3.5 has no data sources in Python: only the sink is for it. The environments have the Python
of `.venv`.
"""
