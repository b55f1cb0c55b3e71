Kind = "service-resolver"
Name = "api"
DefaultSubset = "v1"
Subsets "v1" { Filter = "Service.Meta.version == v1" }
Subsets "v2" { Filter = "Service.Meta.version == v2" OnlyPassing = 2 }
ConnectTimeout = "3s"
request_timeout = 5000000000
Failover {
  v1 { datacenters = "dc2" }
  "*" { targets { service = "other" } targets { service = "third" datacenter = "dc3" } }
}
load_balancer {
  policy = "ring_hash"
  ring_hash_config { minimum_ring_size = "1024" maximum_ring_size = 2048 }
  hash_policies { field = "cookie" field_value = "chocolate" cookie_config { ttl = "10m" path = "/p" } terminal = true }
  hash_policies { source_ip = "1" }
}
