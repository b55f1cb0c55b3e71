service { name = "web" id = "web-1" port = 8080 tags = ["t"] meta { v = "1" } weights { passing = 5 }
  checks = [{ ttl = "1h" status = "passing" }]
  connect { sidecar_service { proxy { upstreams = [{ destination_name = "api" local_bind_port = 9191 config { a { b = 1 } } }] } } } }
services = [{ name = "two" }, { name = "three" kind = "connect-proxy" proxy { destination_service_name = "two" } }]
config_entries { bootstrap { kind = "proxy-defaults" name = "global" config { protocol = "http" l = [{ a = 1 }] } } }
