Kind = "service-splitter"
Name = "api"
Splits {
  weight = "90.004"
  service_subset = "v1"
  request_headers { add { "X-Leg" = 1 } set { A_b = "c" } remove = "cookie" }
}
Splits { Weight = 10 ServiceSubset = "v2" response_headers { Remove = ["x", "y"] } }
