"""What a service says over HTTP: `/` the status page, `/metrics`, `/healthz`, `/readyz`, `/status.json`, `/events`."""
