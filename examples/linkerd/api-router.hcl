# Timeouts and retries by path: to Linkerd these are routes of a profile. The first looks at a header, which no profile
# can: it is left out, and /cart loses its timeout to it rather than getting it for requests that are not meant.

Kind = "service-router"
Name = "api"
Routes = [
  {
    Match { HTTP { PathPrefix = "/cart", Header = [{ Name = "x-debug", Present = true }] } }
    Destination { RequestTimeout = "60s" }
  },
  {
    Match { HTTP { PathPrefix = "/cart" } }
    Destination { RequestTimeout = "3s" }
  },
  {
    Match { HTTP { PathExact = "/stock", Methods = ["GET"] } }
    Destination { RequestTimeout = "1s", NumRetries = 2, RetryOnStatusCodes = [502, 503] }
  },
]
