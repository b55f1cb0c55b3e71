# Two versions of api. The ttl checks wait to be told that all is well, and take it to be so for a day.

services {
  name    = "api"
  id      = "api-1"
  address = "127.0.0.1"
  port    = 9201
  meta    = { version = "v1" }
  checks  = [{ name = "api answers", ttl = "24h", status = "passing" }]
}

services {
  name    = "api"
  id      = "api-2"
  address = "127.0.0.1"
  port    = 9202
  meta    = { version = "v2" }
  checks  = [{ name = "api answers", ttl = "24h", status = "passing" }]
}
