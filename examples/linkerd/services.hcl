# Two versions of api, and a spare to fail over to. Start something that answers HTTP at these ports, on addresses
# that are not 127.0.0.1: Linkerd's proxies dial no loopback.

services = [
  { name = "api", id = "api-1", address = "10.0.0.11", port = 8080, meta = { version = "v1" } },
  { name = "api", id = "api-2", address = "10.0.0.12", port = 8080, meta = { version = "v2" } },
  { name = "spare", id = "spare-1", address = "10.0.0.21", port = 8080 },
]
