Kind     = "service-defaults"
Name     = "api"
Protocol = "http"
