# The instances of the shop. Outside of the demo, start something that answers HTTP at these ports.
#
# Nobody runs checks here: an instance is as healthy as the status written below.

services = [
  {
    name    = "api"
    id      = "api-v1-1"
    address = "127.0.0.1"
    port    = 9101
    meta    = { version = "v1" }
    checks  = [{ name = "api answers", ttl = "1h", status = "passing" }]
  },
  {
    name    = "api"
    id      = "api-v1-2"
    address = "127.0.0.1"
    port    = 9102
    meta    = { version = "v1" }
    checks  = [{ name = "api answers", ttl = "1h", status = "passing" }]
  },
  {
    name    = "api"
    id      = "api-v2-1"
    address = "127.0.0.1"
    port    = 9103
    meta    = { version = "v2" }
    checks  = [{ name = "api answers", ttl = "1h", status = "passing" }]
  },
  {
    name    = "stock-backup"
    id      = "stock-backup-1"
    address = "127.0.0.1"
    port    = 9105
    checks  = [{ name = "backup answers", ttl = "1h", status = "passing" }]
  },
]
