Kind     = "service-defaults"
Name     = "api"
Protocol = "http"
Meta     = { hds-interval = "500ms", hds-timeout = "500ms" }
