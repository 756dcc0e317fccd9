"""`python -m stillspace` is the `stillspace` command."""

from stillspace.cli import main

if __name__ == "__main__":
    main()
