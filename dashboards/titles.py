"""The titles of the panels, each once: tests and boards name a panel by its constant."""


# ---- Fleet

NEXT_EVENT = "Next event in"
VMS_STARTED = "VMs, event Started"
VMS_SCHEDULED = "VMs, event Scheduled"
ALL_SEE_IMDS = "Do exporters see IMDS?"
EVENTS = "Events: now, next, and the last 30 days"
TIMELINE = "Timeline: scheduled, started, and the pause that was measured"
VMS = "VMs"
EVENTS_A_DAY = "Events a day, last 30 days"
BY_TYPE = "By type, last 30 days"

# ---- VM, which has some of the fleet's, too

STATE = "What happens to it?"
SEES_IMDS = "Does its exporter see IMDS?"
POLICY = "Approval policy"
THIS_VM = "This VM"
MEASURED = "What happened, last 30 days"
COUNTED = "What its exporter counted since its journal began"

# ---- Exporters

IMDS = "IMDS"
THROTTLING = "Throttling"
JOURNAL = "Journal"
SPANS = "Spans"
PUSHES = "Alert pushes"
APPROVALS = "Approvals"
EXPORTERS = "Exporters"
NOT_CURRENT = "Exporters without current data"
