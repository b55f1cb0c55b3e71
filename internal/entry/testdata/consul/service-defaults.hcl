kind = "service-defaults"
name = "api"
protocol = "HTTP"
max_inbound_connections = "0x10"
local_connect_timeout_ms = true
local_request_timeout_ms = ""
balance_inbound_connections = "exact_balance"
MaxRequestHeadersKB = 96
mutual_tls_mode = ""
envoy_extensions { name = "builtin/lua" arguments { ProxyType = "connect-proxy" Listener = "inbound" Script = "x" list = ["a"] } }
upstream_config {
  defaults {
    connect_timeout_ms = "300"
    limits { max_connections = 3 max_pending_requests = 0 }
    passive_health_check { interval = "3s" max_failures = 5 enforcing_consecutive_5xx = 50 base_ejection_time = 10000000000 }
    mesh_gateway { mode = "none" }
  }
  overrides = [
    { name = "db" protocol = "tcp" balance_outbound_connections = "exact_balance" envoy_cluster_json = "{}" },
    { Name = "stock" Limits = { MaxConcurrentRequests = 7 } },
  ]
}
