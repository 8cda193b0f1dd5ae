"""The HTTP pages of a service: `/` the status page, `/metrics`, `/healthz`, `/readyz`, `/status.json`, `/events`."""
