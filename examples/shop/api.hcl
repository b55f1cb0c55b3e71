# One request in ten to api goes to version 2.
#
# Change the weights, save, and watch the next requests follow. They must add up to 100.

Kind = "service-splitter"
Name = "api"
Splits = [
  { Weight = 90, ServiceSubset = "v1" },
  { Weight = 10, ServiceSubset = "v2" },
]
