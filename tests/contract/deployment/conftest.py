"""What the tests of the Helm chart share."""

import pytest

from support.deployment.charts import NAMES, VALUES, Manifest, rendered


@pytest.fixture(scope="package")
def charts() -> dict[str, list[Manifest]]:
    """What the chart makes of every file of values."""
    return {name: rendered(VALUES / f"{name}.yaml") for name in NAMES}
