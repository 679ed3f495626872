"""Names of the series that several rules or dashboards use, and the labels by which they join VMs.

What a metric says is in ``metrics.table``; what a recording says is beside its expression.
"""

METRIC = "azure_scheduled_events_"
"""The prefix of all metrics of the exporter."""

# What exporters export.
UP = f"{METRIC}up"
INFO = f"{METRIC}event_info"
SEEN = f"{METRIC}event_seen_timestamp_seconds"
EVENT_IMPACT = f"{METRIC}event_impact_timestamp_seconds"
NOT_BEFORE = f"{METRIC}event_not_before_timestamp_seconds"
STARTED = f"{METRIC}event_started_timestamp_seconds"
ENDED = f"{METRIC}event_ended_timestamp_seconds"
APPROVAL_DUE = f"{METRIC}event_approval_due_timestamp_seconds"
APPROVED = f"{METRIC}event_approved"
PAUSED_LONGER = f"{METRIC}event_paused_longer_seconds"
INSTANCE = f"{METRIC}instance_info"
VM_IMPACT = f"{METRIC}vm_impact_timestamp_seconds"
PEER_IMPACT = f"{METRIC}peer_impact_timestamp_seconds"

# What ``event_recordings`` records of events.
RECORDED_SEEN = "azure_scheduled_events:event"
RECORDED_IMPACT = "azure_scheduled_events:event_impact"
OUTDATED = "azure_scheduled_events:event_outdated"
RECORDED_END = "azure_scheduled_events:event_ended"

# What ``vm_recordings`` records of VMs that events hit.
BLIND = "azure_scheduled_events:blind"
VM_HIT = "azure_scheduled_events:vm_hit"
VM = "azure_scheduled_events:vm"
VM_ANSWERS = "azure_scheduled_events:vm_answers"
VM_BACK = "azure_scheduled_events:vm_back"
VM_AWAY = "azure_scheduled_events:vm_away"
VM_MISSING = "azure_scheduled_events:vm_missing"

# What ``vm_recordings`` records of a fleet.
EXPORTERS = "azure_scheduled_events:exporters"
SCALE_SET_VMS = "azure_scheduled_events:scale_set_vms"

SET_KEY = "subscription_id, resource_group, scale_set"
"""These labels identify a scale set."""
VM_KEY = f"{SET_KEY}, vm_name"
"""These labels identify a VM; they stay the same when its address, port or job changes."""
