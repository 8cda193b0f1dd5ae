"""An app and its configuration: the app file, its layers (arguments, environment, `.properties`), and its handler.

`layers` merges the sources into one table, and `app_file` checks it. `environment`, `argument_app` and
`cluster_arguments` read the sources. `handler_factory` and `imports` load the user's own code by name. `toml_writer`
writes an app as an app file.
"""
