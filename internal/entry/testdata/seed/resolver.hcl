kind = "service-resolver"
name = "api"
default_subset = "v1"
subsets "v1" { filter = "Service.Meta.version == v1" }
subsets "v2" { only_passing = true }
failover { "*" { datacenters = ["dc2"] } }
meta { text = <<-END
  kept
  END
  hex = 0x1f float = -1.5e3 }
