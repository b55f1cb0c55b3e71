# The versions of api, told apart by the metadata of its instances.

Kind          = "service-resolver"
Name          = "api"
DefaultSubset = "v1"
Subsets = {
  v1 = { Filter = "Service.Meta.version == v1" }
  v2 = { Filter = "Service.Meta.version == v2" }
}
