"""The drill's proxy, which the tests of broken networks use, too."""

from scripts.drill.proxy import Cut, Fault, Hold, Proxy, Swallow

__all__ = ["Cut", "Fault", "Hold", "Proxy", "Swallow"]
