"""Sets up the process of a pod, before and after it opens its ports.

`__main__` calls all modules, each once:

1. `without_pandas` keeps Arrow from importing pandas, and `allocator` has large pieces of memory
   given back to the system. Both come before anything large is made.
2. `libraries` refuses a version of aiohttp that the pod was not made for: the pod uses private
   members of it. The process ends with the version to install.
3. `memory_limit` finds the limit of the container, or the memory of the machine. `memory_shares`
   gives the block cache, the write buffers and requests a share of it where the settings name no
   limit, and lowers the number of connections to fit.
4. `file_limits` raises the limit of open files, and gives each of the three listeners a sixth of
   it. A database that cannot open a file stops its partition, so half of them stays for databases.
5. `interpreter` tunes the garbage collector and the switching of threads. It comes last, after the
   replicas are open: all objects that exist then are taken for lasting ones.

All but `memory_shares` concerns the process as a whole, so pods inside of a test's process do
without it. `allocator` changes nothing in another C library than glibc.

The package imports only `runtime.settings` of the store, and nothing but `__main__` and tests
imports it. Tests: `test_libraries`, `test_memory_shares`, `test_file_limits` and `test_interpreter`
in `tests/unit/qss_store/runtime`.
"""
