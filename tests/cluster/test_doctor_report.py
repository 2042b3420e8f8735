"""What the doctor prints: whether lessons can run, and a line for a probe that hangs or fails."""

import io
import json
import threading

from good_machine import machine

from dtlib.cluster import doctor
from dtlib.cluster.doctor import Finding, Machine, probes_system


def refuse(*_: object) -> None:
    raise OSError("Permission denied")


def said(findings: list[Finding], *, as_json: bool = False) -> tuple[int, str]:
    file = io.StringIO()
    return doctor.report(findings, as_json=as_json, file=file), file.getvalue()


def test_laptop_with_no_extras_can_run_lessons():
    findings = doctor.examine(machine(installed=lambda p: None if p == "deepspeed" else "1"))
    assert len(findings) == len(doctor.PROBES)
    assert {finding.state for finding in findings} == {"ok", "note"}
    code, text = said(findings)
    assert code == 0
    assert text.splitlines()[-1] == "Lessons can run here."


def test_one_thing_that_lessons_need_makes_69():
    findings = doctor.examine(machine(listen=refuse))
    code, text = said(findings)
    assert code == 69
    assert text.splitlines()[-1] == "Lessons cannot run here yet: ports."
    assert "→ allow local connections" in text
    code, text = said(findings, as_json=True)  # JSON holds the same
    assert code == 69
    found = json.loads(text)
    assert found["ready"] is False
    assert found["findings"] == [finding.as_dict() for finding in findings]


def test_probe_that_hangs_is_given_up():
    let_go = threading.Event()

    def stuck(machine: Machine) -> Finding:
        let_go.wait(60)
        return Finding("stuck", "ok", "")

    findings = doctor.examine(machine(), [stuck, probes_system.cores], patience=0.2)
    let_go.set()
    assert (findings[0].state, findings[0].found) == ("note", "no answer within 0.2 s")
    assert findings[1].state == "ok"


def test_probe_that_fails_is_a_line_of_its_own():
    def ports(machine: Machine) -> Finding:
        raise RuntimeError("broken")

    def other(machine: Machine) -> Finding:
        raise RuntimeError("broken")

    findings = doctor.examine(machine(), [ports, other])
    assert [finding.state for finding in findings] == ["missing", "note"]
    assert "RuntimeError: broken" in findings[0].found
