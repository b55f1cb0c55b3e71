# The versions of api, told apart by the metadata of its instances. Without a healthy one api is spare.

Kind = "service-resolver"
Name = "api"
Subsets = {
  v1 = { Filter = "Service.Meta.version == v1" }
  v2 = { Filter = "Service.Meta.version == v2" }
}
Failover = {
  "*" = { Service = "spare" }
}
