"""The alerts of the service and of the proxy fire when they should, and only then."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.live import ROOT
from tests.support.skips import needs_program

FOLDER = Path(__file__).parent / "alerts"
RULES = {"petstore": "alerts.yaml", "proxy": "proxy_alerts.yaml"}


@needs_program(shutil.which("promtool"), "promtool")
@pytest.mark.parametrize("name", RULES)
def test_alerts_pass_their_unit_tests(name: str) -> None:
    command = ["promtool", "test", "rules", str(FOLDER / f"{name}.yaml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("name", RULES)
def test_every_alert_is_tested_firing_and_silent(name: str) -> None:
    fires: set[str] = set()
    is_silent: set[str] = set()
    for test in yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["tests"]:
        for case in test["alert_rule_test"]:
            (fires if case.get("exp_alerts") else is_silent).add(case["alertname"])
    groups = yaml.safe_load((ROOT / "deploy/prometheus" / RULES[name]).read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert fires == is_silent == alerts


@pytest.mark.parametrize("name", RULES)
def test_compose_scrapes_the_jobs_of_the_alerts(name: str) -> None:
    folder = ROOT / "deploy/prometheus"
    jobs = {
        config["job_name"]
        for config in yaml.safe_load((folder / "prometheus.yaml").read_text())["scrape_configs"]
    }
    assert set(re.findall(r'job="([^"]+)"', (folder / RULES[name]).read_text())) <= jobs
