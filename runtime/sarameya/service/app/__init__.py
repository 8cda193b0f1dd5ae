"""An app and its configuration: the app file, its layers (arguments, environment, `.properties`), and its handler.

`app_file` checks the table that `layers` puts together; `environment`, `argument_app` and `cluster_arguments` feed it.
`handler_factory` and `imports` make the user's own code of a name; `toml_writer` writes an app as an app file.
"""
