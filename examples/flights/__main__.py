"""Entry point of `python -m examples.flights`; see `demo.py`."""

import signal

# Ctrl-C during the imports below ends the program at once, without a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from examples.flights.demo import main  # noqa: E402

raise SystemExit(main())
