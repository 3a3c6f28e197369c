"""Events and timers in an order that can be relied on."""

from bellwire.bus import Bus, Event, HandlersFailed, Subscription
from bellwire.clock import Clock, Timer
from bellwire.combinations import debounce, delay, throttle

__all__ = ["Bus", "Clock", "Event", "HandlersFailed", "Subscription", "Timer", "debounce", "delay", "throttle"]
