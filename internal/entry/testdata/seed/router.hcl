# A comment
Kind = "service-router"
Name = "web"
Routes = [
  {
    Match { HTTP { PathPrefix = "/v2" Methods = ["GET"] Header = [{ Name = "x" Present = true }] } }
    Destination { Service = "api" RequestTimeout = "3s" RequestHeaders { Add { "X-Seen" = 1 } } }
  },
]
