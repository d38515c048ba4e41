"""The alerts of the proxy fire when they should, and only then."""

import shutil
import subprocess
from pathlib import Path

import yaml

from tests.support.live import ROOT
from tests.support.skips import needs_program

TESTS = Path(__file__).parent / "alerts/proxy.yaml"
RULES = ROOT / "deploy/prometheus/proxy_alerts.yaml"


@needs_program(shutil.which("promtool"), "promtool")
def test_alerts_of_the_proxy_pass_their_unit_tests() -> None:
    command = ["promtool", "test", "rules", str(TESTS)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_alert_of_the_proxy_is_tested_firing_and_silent() -> None:
    fires: set[str] = set()
    is_silent: set[str] = set()
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for case in test["alert_rule_test"]:
            (fires if case.get("exp_alerts") else is_silent).add(case["alertname"])
    groups = yaml.safe_load(RULES.read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert fires == is_silent == alerts
