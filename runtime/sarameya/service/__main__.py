"""`python -m sarameya.service`: the command line where the `sarameya` script is not on the path, and for workers."""

from sarameya.service.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
