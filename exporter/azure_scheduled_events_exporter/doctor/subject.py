"""The data that checks share: the installation, and results of earlier checks. Checks nothing itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from azure_scheduled_events_exporter.config import Config
from azure_scheduled_events_exporter.core.instance import Instance
from azure_scheduled_events_exporter.errors import ExporterError
from azure_scheduled_events_exporter.tracing.variables import is_on


@dataclass(slots=True)
class Subject:
    """The installation under examination.

    Attributes:
        config: the effective settings.
        environment: the variables that the exporter runs with.
        files: the environment files that were read.
        exporter_url: the base address of the exporter that runs here.
        instance: this VM in the instance metadata; None until it has been read.
    """

    config: Config
    environment: Mapping[str, str]
    files: Sequence[str]
    exporter_url: str
    instance: Instance | None = field(default=None)

    @property
    def vm_name(self) -> str:
        """This VM's name as the exporter uses it; ``""`` if unknown."""
        return self.config.instance_name or (self.instance.vm_name if self.instance else "")

    @property
    def is_traced(self) -> bool:
        """Whether a collector is configured."""
        try:
            return is_on(self.config.otlp_endpoint, self.environment)
        except ExporterError:  # reported with the collector
            return True
