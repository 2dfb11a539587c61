"""The command about this installation: doctor."""
COMMANDS = ()
