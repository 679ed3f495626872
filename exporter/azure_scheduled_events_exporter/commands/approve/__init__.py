"""The command ``approve``: an operator on this VM approves events.

A request is queued in the journal of the running exporter, which journals, sends and counts it.
Without an exporter, this process is one until the request has a result, and then says so on
standard error. Both need write access to the journal's folder: approvals cannot be requested over
the network.

``command`` has the flags, ``question`` what a person confirms, ``exporter`` finds or becomes the
exporter that sends, and ``requests`` queues what is to be sent and waits for the results.
"""
