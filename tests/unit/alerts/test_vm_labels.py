"""The labels by which a team's alerts name a VM, as the setting ``maintenance.equal`` has them."""

import pytest

from azure_scheduled_events_exporter.alerts import resolve
from azure_scheduled_events_exporter.alerts.vm_labels import vm_labels


@pytest.mark.parametrize(
    ("item", "value", "possible"),
    [
        ("instance=host:9100", "10.0.0.4:9100", True),
        ("instance=host:9100", "[fd00::4]:9100", True),
        ("instance=host:9100", "10.0.0.4:7777", False),
        ("instance=host:9100", "10.0.0.4", False),
        ("instance=host:9100", ":9100", False),
        ("instance=host", "10.0.0.4", True),
        ("instance=host", "10.0.0.4:9100", False),
        ("node=vm_name.corp", "web-17.corp", True),
        ("node=vm_name.corp", "web-17", False),
        ("instance", "10.0.0.4:9100", True),
        ("instance", "", False),
    ],
)
def test_values_that_the_rules_can_yield(item: str, value: str, possible: bool) -> None:
    """A label of a team's alert can have a value only if the value has the form that the setting
    gives: ``item`` is the setting.
    """
    (label,) = vm_labels(resolve({"maintenance.equal": item}))
    assert label.may_have(value) is possible
