"""`python -m qss_client` is the command `qss`."""

from qss_client.cli.main import main

if __name__ == "__main__":
    main()
