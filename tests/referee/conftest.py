"""What the tests of the referee share: where to find their helpers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
