"""An analysis as a page, and as a summary on the terminal."""
