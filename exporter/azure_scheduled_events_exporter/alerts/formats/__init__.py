"""What the table of alerts is written as: a module for each format, and those that formats share.

``texts`` says which facts the texts of alerts have. ``rule_texts``, ``grafana_texts`` and
``azure_monitor_texts`` say how each engine writes these facts, from ``queries``, ``go_templates``
and ``wording``. Must not decide when an alert fires.
"""
