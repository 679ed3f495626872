"""Names of series: what exporters show, and what rules record. Must not depend on a rule."""

from azure_scheduled_events_exporter.core.event_types import EventType
from azure_scheduled_events_exporter.metrics.collector import SPECS


def _name(metric: str) -> str:
    return SPECS[metric].full_name


UP = _name("up")
INFO = _name("event_info")
INSTANCE = _name("instance_info")
HOST = _name("host_info")
NOT_BEFORE = _name("event_not_before_timestamp_seconds")
DURATION = _name("event_duration_seconds")
VMS_OF_EVENT = _name("event_resources")
FIRST_SEEN = _name("event_first_seen_timestamp_seconds")
APPROVED = _name("event_approved")
ANNOUNCED = _name("event_announced")
UNCONFIRMED = _name("event_unconfirmed")
APPROVAL_DUE = _name("event_approval_due_timestamp_seconds")
POLLS = _name("polls_total")
EVERY_POLL = f"{_name('poll_duration_seconds')}_count"
"""How many polls an exporter has made, in one series; ``polls_total`` counts them in six, by outcome."""
LAST_SUCCESS = _name("last_success_timestamp_seconds")

RECORDED = "azure_scheduled_events:"
SHOWN = f"{RECORDED}event_shown"
SEEN = f"{RECORDED}event_seen_timestamp_seconds"
OVER = f"{RECORDED}event_over_timestamp_seconds"
WARNED = f"{RECORDED}event_announced"
EVENT_APPROVED = f"{RECORDED}event_approved"
PLANNED = f"{RECORDED}event_not_before_timestamp_seconds"
LENGTH = f"{RECORDED}event_duration_seconds"
NOTICE = f"{RECORDED}event_notice_seconds"
VM_EVENT = f"{RECORDED}vm_event_seen_timestamp_seconds"
VM_EVENT_OVER = f"{RECORDED}vm_event_over_timestamp_seconds"
EVENT = f"{RECORDED}event"
STARTED = f"{RECORDED}event_started"
VM_SURVIVED = f"{RECORDED}vm_survived"
VM_HIT = f"{RECORDED}vm_hit"
SCALE_SET_VMS = f"{RECORDED}scale_set_vms"
ZONE_VMS = f"{RECORDED}zone_vms"
VM_TARGET = f"{RECORDED}vm_target"
EVENT_PLACE = f"{RECORDED}event_place"
WITHOUT_IMDS = f"{RECORDED}exporter_without_imds"
VM_MAINTENANCE = f"{RECORDED}vm_maintenance_begin_timestamp_seconds"
UNANSWERED = f"{RECORDED}exporter_unanswered"
RECOVERED = f"{RECORDED}exporter_recovered"
JOB_TARGETS = f"{RECORDED}job_targets"
SCALE_SET_LABELS = f"{RECORDED}scale_set_labels"
ZONE_LABELS = f"{RECORDED}zone_labels"

DELETING = "|".join(each for each in EventType if each.facts.deletes)
"""Types after which a VM does not come back, as a regular expression."""

SCALE_SET = "subscription_id, resource_group, scale_set"
ZONE = "subscription_id, location, zone"
VM = "vm_id, vm_name, subscription_id, resource_group, scale_set, location, zone"
