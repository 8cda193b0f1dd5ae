"""`python -m examples.flights`: see `demo.py`."""

import signal

# A Ctrl-C while the rest is being imported ends this like any program, without a traceback.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from examples.flights.demo import main  # noqa: E402

raise SystemExit(main())
