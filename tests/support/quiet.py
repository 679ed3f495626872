"""The scenario in which nothing happens by itself: a test places events, or plays another one."""

from azure_scheduled_events_exporter.simulator import Scenario, VirtualMachine

QUIET = Scenario("quiet", "Nothing happens.", (VirtualMachine("vm_0"), VirtualMachine("vm_1")), ())
