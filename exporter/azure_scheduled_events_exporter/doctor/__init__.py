"""What ``doctor`` checks, from the metadata service to Grafana: a module for each part.

A check looks at one thing; its result is a :class:`~.finding.Finding`. A module's ``examine`` calls
its checks in order and skips those that an earlier failure makes meaningless. It is a generator, so
that a finding can be printed before the next check begins. Nothing here prints or changes the
checked system. Only ``commands`` uses this package.
"""
