"""What the process has imported from which commands are forked."""

import segre.analysis.run
import segre.checkpoint.commands
import segre.cli.app
import segre.report.png
import segre.report.text
import segre.sweep.run  # noqa: F401
