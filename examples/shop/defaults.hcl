# Everything in the shop speaks HTTP.

Kind = "proxy-defaults"
Name = "global"
Config {
  protocol = "http"
}
