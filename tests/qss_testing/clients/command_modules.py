"""The modules that the server of forked commands imports; the import takes half a second."""

import gc

import celpy

import qss_operator.local.background
import qss_operator.local.changes
import qss_operator.local.run
import qss_operator.resources.validation  # noqa: F401
from qss_client.cli.main import make_app

make_app()
celpy.Environment()  # Makes the grammar of CEL, which the class keeps.
gc.freeze()
