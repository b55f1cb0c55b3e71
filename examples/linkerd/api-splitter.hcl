# One request in a hundred goes to version 2: to Linkerd these are dst_overrides.

Kind = "service-splitter"
Name = "api"
Splits = [
  { Weight = 99, ServiceSubset = "v1" },
  { Weight = 1, ServiceSubset = "v2" },
]
