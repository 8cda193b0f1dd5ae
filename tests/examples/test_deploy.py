"""examples/deploy: its files agree with each other, with the timeouts of the app file, and with the service."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sysconfig
import tomllib
from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from sarameya.service.app.app_file import SERVICE_KEYS, App, load_app
from sarameya.service.app.environment import variables
from sarameya.service.cli.program import build_parser
from sarameya.service.output.error_report import ExitCode
from sarameya_handlers import SparkSink

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
APP_FILE = DEPLOY / "landing.toml"
MARGIN = 15
"""Seconds beyond rebalance_timeout, as the files document. Spark's JVM has ten of them to stop."""


def app(environ: dict[str, str] | None = None) -> App:
    return load_app(APP_FILE, environ or {})


def least_grace(app: App) -> float:
    assert app.config.close_timeout < app.config.rebalance_timeout
    return app.config.rebalance_timeout + MARGIN


# -- systemd -------------------------------------------------------------------------------------


def unit() -> dict[str, list[str]]:
    """Return the settings of the unit by name."""
    found = defaultdict(list)
    for line in (DEPLOY / "sarameya.service").read_text().splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found[name].append(value)
    return found


def test_unit_is_valid(tmp_path: Path) -> None:
    text = (DEPLOY / "sarameya.service").read_text()
    script = Path(sysconfig.get_path("scripts"), "sarameya")
    (tmp_path / "sarameya.service").write_text(text.replace("/opt/sarameya/bin/sarameya", str(script)))
    assert str(script) in (tmp_path / "sarameya.service").read_text()
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", tmp_path / "sarameya.service"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_unit_has_sufficient_timeouts() -> None:
    settings = unit()
    assert float(settings["TimeoutStopSec"][0]) >= least_grace(app())
    assert float(settings["WatchdogSec"][0]) > app().config.rebalance_timeout
    assert (settings["Type"], settings["KillMode"]) == (["notify"], ["mixed"])


def test_unit_restarts_the_service_only_after_passing_failures() -> None:
    settings = unit()
    final = {ExitCode.CONFIGURATION, *map(ExitCode.on_signal, (1, 2, 15))}
    assert settings["Restart"] == ["on-failure"]
    assert {int(code) for code in settings["RestartPreventExitStatus"][0].split()} == final


def test_unit_runs_the_app_in_its_state_directory() -> None:
    settings = unit()
    [command] = settings["ExecStart"]
    assert build_parser(command.split()[1:]).parse_args(command.split()[1:]).app_file.name == APP_FILE.name
    assert settings["WorkingDirectory"] == [f"/var/lib/{settings['StateDirectory'][0]}"]
    assert not table(app()).is_absolute()
    [variable] = settings["Environment"]
    assert app(dict([variable.replace("%H", "node-1").split("=", 1)])).config.group_instance_id == "node-1"


@pytest.mark.parametrize("name", ["landing.toml", "sarameya.service", "Containerfile", "kubernetes.yaml"])
def test_named_variables_exist(name: str) -> None:
    names = set(re.findall(r"SARAMEYA_\w+", (DEPLOY / name).read_text()))
    assert names
    _, problems = variables(dict.fromkeys(names, "text"), SERVICE_KEYS)
    assert [problem for problem in problems if "no such variable" in problem] == []


# -- the image -----------------------------------------------------------------------------------


def image() -> dict[str, list[str]]:
    """Return the arguments of the Containerfile's instructions, by instruction."""
    lines = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    found = defaultdict(list)
    for line in lines:
        if line and not line.startswith("#"):
            instruction, _, arguments = line.partition(" ")
            found[instruction].append(arguments)
    assert found.keys() <= {"FROM", "RUN", "COPY", "USER", "WORKDIR", "ENV", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    return found


def test_image_copies_existing_files_and_all_packages() -> None:
    for copied in image()["COPY"]:
        *sources, _ = copied.split()
        assert [source for source in sources if not (ROOT / source).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [extras] = re.findall(r'"/src\[(.*)\]"', " ".join(image()["RUN"]))
    assert set(extras.split(",")) <= project["project"]["optional-dependencies"].keys()
    copied_paths = {source for copied in image()["COPY"] for source in copied.split()[:-1]}
    built = {project["project"]["readme"], *project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    assert [path for path in built if not any(Path(path).is_relative_to(source) for source in copied_paths)] == []


def test_image_runs_the_app_with_the_console_script() -> None:
    [entrypoint], [command] = (list(map(json.loads, image()[name])) for name in ("ENTRYPOINT", "CMD"))
    assert entrypoint == ["sarameya"]
    assert str(build_parser(command).parse_args(command).app_file) == app_file_of_the_image()


def app_file_of_the_image() -> str:
    [path] = [copied.split()[1] for copied in image()["COPY"] if APP_FILE.name in copied]
    return path


# -- Kubernetes ----------------------------------------------------------------------------------


def manifest(kind: str) -> Any:
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    [found] = [document for document in documents if document["kind"] == kind]
    return found


def pod() -> Any:
    return manifest("StatefulSet")["spec"]["template"]["spec"]


def container() -> Any:
    [found] = pod()["containers"]
    return found


def app_of_the_pod() -> App:
    values = {one["name"]: one.get("value", "sarameya-landing-0") for one in container()["env"]}
    [named] = [one for one in container()["env"] if "valueFrom" in one]
    assert named["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    return app(values)


def table(app: App) -> PurePosixPath:
    return PurePosixPath(app.handler.options["table"].removeprefix("parquet:"))


def test_app_file_is_valid() -> None:
    SparkSink.from_options(app().handler.options)
    assert app_of_the_pod().config.group_instance_id == "sarameya-landing-0"


def test_pod_has_sufficient_timeouts() -> None:
    assert pod()["terminationGracePeriodSeconds"] >= least_grace(app_of_the_pod())
    liveness = container()["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] > app_of_the_pod().config.rebalance_timeout


def test_replaced_pod_rejoins_before_its_session_times_out() -> None:
    config = app_of_the_pod().config
    assert config.group_instance_id is not None
    assert config.session_timeout > 45  # a new pod needs up to this long to start Spark, with its image already pulled


def test_probes_request_the_served_paths_and_port() -> None:
    http = app_of_the_pod().service.http
    assert http is not None
    host, _, port = http.rpartition(":")
    assert host == "0.0.0.0"
    [served] = container()["ports"]
    assert served["containerPort"] == int(port)
    paths = {}
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container()[kind]["httpGet"]
        assert probe["port"] == served["name"]
        paths[kind] = probe["path"]
    assert paths == {"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    annotations = manifest("StatefulSet")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == port


def test_mounts_of_the_pod_match_the_paths_of_the_image() -> None:
    mounts = {one["name"]: one["mountPath"] for one in container()["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod()["volumes"]}
    [workdir] = image()["WORKDIR"]
    assert PurePosixPath(workdir, table(app_of_the_pod())).is_relative_to(mounts["landing"])
    assert container()["args"] == json.loads(image()["CMD"][0])
    assert f"{mounts['app']}/{APP_FILE.name}" == app_file_of_the_image()
    assert container()["securityContext"]["readOnlyRootFilesystem"] is True
    assert mounts["tmp"] == "/tmp"
    assert str(pod()["securityContext"]["runAsUser"]) == image()["USER"][0]


def test_selectors_select_the_pods() -> None:
    labels = manifest("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert manifest("StatefulSet")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("Service")["spec"]["selector"] == labels
    assert manifest("StatefulSet")["spec"]["serviceName"] == manifest("Service")["metadata"]["name"]
