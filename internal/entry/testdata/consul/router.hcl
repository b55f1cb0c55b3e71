Kind = "service-router"
Name = "api"
Routes = [
  {
    Match { HTTP { PathRegex = "/a.*" CaseInsensitive = true Methods = ["get", "PUT"]
      Header = [{ Name = "x" Exact = "1" Invert = true }, { name = "y" suffix = "z" }]
      QueryParam { name = "q" regex = "a+" } } }
    Destination {
      Service = "api" ServiceSubset = "v2" RequestTimeout = "-1s" idle_timeout = "5m" NumRetries = 3
      retry_on_connect_failure = true RetryOn = ["5xx", "reset"] RetryOnStatusCodes = [503, "504"]
      request_headers { add { x = 1.0 y = true } }
    }
  },
  { match {} destination { prefix_rewrite = "" } },
  { Destination = {} },
]
