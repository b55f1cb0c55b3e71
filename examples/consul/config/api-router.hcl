# Who sends the header x-canary, with any value, gets version 2.

Kind = "service-router"
Name = "api"
Routes = [
  {
    Match {
      HTTP {
        Header = [{ Name = "x-canary", Present = true }]
      }
    }
    Destination {
      ServiceSubset = "v2"
    }
  },
]
