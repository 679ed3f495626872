"""The pages about OpenTelemetry have the attributes that are sent, and their configurations of
other programs hold together.

Nothing in the package registries reads the language of Grafana Alloy, so its example is compared
with the grammar of blocks and attributes that is written here.
"""

import ast
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from azure_scheduled_events_exporter.config.settings import SETTINGS
from azure_scheduled_events_exporter.core.document import ScheduledEvent, Scope, event_values
from azure_scheduled_events_exporter.core.lifecycle import Lifecycle, State, impact_values
from azure_scheduled_events_exporter.core.timestamp import Timestamp
from azure_scheduled_events_exporter.metrics.table import SPECS
from azure_scheduled_events_exporter.tracing import otlp
from support.deployment.charts import container, pod, rendered
from support.documented import Block, blocks
from support.paths import ROOT

PAGE = ROOT / "docs" / "opentelemetry.md"
SPANS = ROOT / "docs" / "spans.md"
LIFE_ATTRIBUTES = {"not_before", "notice_seconds", "approved_by", "outcome"}
HOOK_ATTRIBUTES = {"hook.phase", "hook.outcome"}
PORT = 10169
JOB = "azure-scheduled-events-exporter"


def block(word: str) -> Block:
    """The one block of the page that has ``word``."""
    (found,) = [each for each in blocks(PAGE) if word in each.text]
    return found


def test_attributes_of_spans_are_documented_as_they_are() -> None:
    """The table of attributes has, and has only, the fields of an event, what is measured, and what
    is known of its life and of hooks.
    """
    # Only the names of the values matter, which are the same for each event.
    event = ScheduledEvent("id", "Freeze", "Started")
    life = Lifecycle(event, State.STARTED, Scope.SELF, Timestamp(0.0))
    fields = {name.removeprefix("event_") for name in event_values(event)}
    measured = set(impact_values(life))
    table = SPANS.read_text().partition("| attribute | meaning |\n")[2].partition("\n\n")[0]
    named = {
        name for row in table.splitlines() for name in re.findall("`([^`]+)`", row.split(" | ")[0])
    }
    assert named == fields | measured | LIFE_ATTRIBUTES | HOOK_ATTRIBUTES


def test_attributes_of_the_resource_are_documented_as_they_are() -> None:
    """The page lists each attribute that the source gives to the resource, and no other."""
    source = ast.parse(Path(otlp.__file__).read_text(encoding="utf-8"))
    set_by_the_source = {
        node.value
        for node in ast.walk(source)
        if isinstance(node, ast.Constant)
        and re.fullmatch(r"(service|cloud|host|azure)(\.[a-z_]+)+", str(node.value))
    } - {"azure.vm"}  # a value, not a name
    paragraph = SPANS.read_text().partition("Resource attributes follow")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", paragraph))
    assert named == set_by_the_source


def test_the_collector_has_what_its_pipelines_name() -> None:
    """Each pipeline names components that are defined, and no component is left out. Traces come
    in at the port to which the page lets the exporter send, and need the token that the extension
    checks.
    """
    content = yaml.safe_load(block("service:").text)
    pipelines = content["service"]["pipelines"]
    assert set(pipelines) == {"traces", "metrics"}
    for part in ("receivers", "exporters"):
        named = {name for pipeline in pipelines.values() for name in pipeline[part]}
        assert named == set(content[part])
    http = content["receivers"]["otlp"]["protocols"]["http"]
    assert [http["auth"]["authenticator"]] == list(content["extensions"])
    assert content["service"]["extensions"] == list(content["extensions"])
    assert pipelines["traces"]["receivers"] == ["otlp"]
    listens = http["endpoint"]
    sent_to = re.findall(r"_OTLP_ENDPOINT=https://collector\.example\.com:(\d+)", PAGE.read_text())
    assert [listens.rpartition(":")[2]] == sent_to


def test_pods_have_the_token_and_the_certificate(tmp_path: Path) -> None:
    """With the values for pods, Helm renders a container that has the token of a Secret, and the
    certificate in a file that is mounted. The commands of the page create both objects.
    """
    values = block("extraVolumes")
    (tmp_path / "values.yaml").write_text(values.text)
    manifests = rendered(tmp_path / "values.yaml")
    variables = {each["name"]: each for each in container(manifests)["env"]}
    token = variables["OTEL_EXPORTER_OTLP_HEADERS"]["valueFrom"]["secretKeyRef"]
    file = Path(variables["OTEL_EXPORTER_OTLP_CERTIFICATE"]["value"])
    (mount,) = [
        each
        for each in container(manifests)["volumeMounts"]
        if each["mountPath"] == str(file.parent)
    ]
    (volume,) = [each for each in pod(manifests)["volumes"] if each["name"] == mount["name"]]
    made = block("create configmap").text
    assert f"create configmap {volume['configMap']['name']} --from-file={file.name}=" in made
    assert f"create secret generic {token['name']} --from-literal={token['key']}=" in made
    assert "otlp.endpoint" in yaml.safe_load(values.text)["config"]


def test_the_datadog_agent_asks_for_metrics_that_exist() -> None:
    """The check reads the port and the path of the exporter, and metrics that the exporter has. The
    page's monitors query these metrics by the names that the check gives to them.
    """
    content = yaml.safe_load(block("openmetrics_endpoint").text)
    assert set(content) == {"init_config", "instances"}
    (instance,) = content["instances"]
    address = urlsplit(instance["openmetrics_endpoint"])
    defaults = {setting.flag: setting.default for setting in SETTINGS}
    assert f":{address.port}" == defaults["web.listen-address"]
    assert address.path == defaults["web.telemetry-path"]
    namespace = instance["namespace"]
    renamed = {name: new for each in instance["metrics"] for name, new in each.items()}
    assert renamed
    assert [name for name in renamed if name.removeprefix(f"{namespace}_") not in SPECS] == []
    queried = re.findall(rf"max:{namespace}\.(\w+){{", PAGE.read_text())
    assert queried
    assert set(queried) <= set(renamed.values())


def alloy_value(text: str) -> object:
    """Read a value of Alloy: JSON with ``=`` behind keys, and names of components without
    quotes.
    """
    # A quoted word, which is a key if ` = ` follows, or the dotted name of a component.
    as_json = re.sub(r'("[^"]*")( = )?|([a-z_]+(?:\.[a-z_]+)+)', _as_json, text)
    return json.loads(as_json)


def _as_json(part: re.Match[str]) -> str:
    quoted, is_key, component = part.groups()
    if component:
        return f'"{component}"'
    if is_key:
        return f"{quoted}: "
    return str(quoted)


def alloy_blocks(text: str) -> dict[str, dict[str, object]]:
    """Return the attributes of each block of a configuration of Alloy, which has nothing else.

    A block is named by its keyword, its label and the names of the blocks around it, with dots.
    """
    attributes: dict[str, dict[str, object]] = {}
    inside: list[str] = []
    for line in text.splitlines():
        opened = re.fullmatch(r' *([a-z_.]+)(?: "([a-z_]+)")? \{', line)
        assigned = re.fullmatch(r" +([a-z_]+) += (.+)", line)
        if opened:
            inside.append(".".join(filter(None, opened.groups())))
            attributes[".".join(inside)] = {}
        elif assigned:
            attributes[".".join(inside)][assigned[1]] = alloy_value(assigned[2])
        elif line.strip() == "}":
            inside.pop()
        else:
            assert not line.strip(), line
    assert inside == []
    return attributes


def test_alloy_sends_what_it_scrapes_to_a_component_of_the_example() -> None:
    """The example scrapes the port of the exporter under the name of its job, and forwards to a
    component that the example has.
    """
    attributes = alloy_blocks(block("prometheus.scrape").text)
    scrape = attributes["prometheus.scrape.azure_scheduled_events"]
    assert scrape["job_name"] == JOB
    assert scrape["targets"] == [{"__address__": f"10.0.0.4:{PORT}"}]
    assert scrape["forward_to"] == ["prometheus.remote_write.default.receiver"]
    assert "url" in attributes["prometheus.remote_write.default.endpoint"]
