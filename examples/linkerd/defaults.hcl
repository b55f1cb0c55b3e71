# Everything speaks HTTP: the default of Consul is tcp, of which Linkerd's proxies look at no request.

Kind = "proxy-defaults"
Name = "global"
Config {
  protocol = "http"
}
