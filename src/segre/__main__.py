"""`python -m segre` is `segre`."""

from segre.cli import main

if __name__ == "__main__":
    main()
