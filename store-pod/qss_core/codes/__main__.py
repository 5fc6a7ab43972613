"""Prints the page of all codes: `python -m qss_core.codes > store-pod/docs/errors.md`."""

import sys

from qss_core.codes.page import page_of_codes

sys.stdout.write(page_of_codes())
