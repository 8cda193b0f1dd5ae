"""A session, from its first assignment to its last commit: `state` decides, `runner` carries out."""
