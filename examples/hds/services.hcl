# Health discovery with one Envoy and nothing to install beside it:
#
#   catenary serve --from examples/hds
#   catenary bootstrap envoy --service web --upstream api:9191 --hds > envoy.json && envoy -c envoy.json
#
# Now catenary health api shows one instance up, which is catenary's own HTTP side, and one down, where nobody
# listens; curl 127.0.0.1:9191/healthz is answered by the one that is up, always.
#
# A second checker on this machine takes a name and ports of its own, and catenary health api shows its votes too:
#
#   catenary bootstrap envoy --service checker --proxy-id checker-2 --admin-bind 127.0.0.1:0 --hds > 2.json
#   envoy -c 2.json --use-dynamic-base-id
#
# An Envoy never judges alone what runs on its own node. These two are known by no node's name, so they are taken
# for other machines than that of the instances; sidecars (--sidecar-for) are not.

services = [
  {
    name    = "api"
    id      = "api-1"
    address = "127.0.0.1"
    port    = 18001
    meta    = { hds-protocol = "http", hds-path = "/healthz" }
  },
  {
    name    = "api"
    id      = "api-2"
    address = "127.0.0.1"
    port    = 18009
    meta    = { hds-protocol = "tcp" }
  },
]
